import json as _json

class _Tools:
    def __init__(self):
        # What the last call that failed failed with: exceptions here hold a text and no more.
        self.error = None

    def _answer(self, name, arguments):
        answer = _json.loads(_host(name, arguments))
        if 'error' in answer:
            self.error = error = answer['error']
            raise RuntimeError(f"{error['kind']} ({error['code']}): {error['message']}")
        return answer['value']

    def call(self, name, args=None, **named):
        return self._answer(name, _json.dumps(named if args is None else args))

    def list(self):
        return self._answer('', '')

tools = _Tools()
