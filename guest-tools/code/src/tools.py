import json as _json

class _Tools:
    def __init__(self):
        # What the last call that failed failed with: exceptions here hold a text and no more.
        self.error = None

    def _told(self, answer):
        answer = _json.loads(answer)
        if 'error' in answer:
            self.error = error = answer['error']
            raise RuntimeError(f"{error['kind']} ({error['code']}): {error['message']}")
        return answer['value']

    def call(self, name, args=None, **named):
        return self._told(_host(str(name), _json.dumps(named if args is None else args)))

    def start(self, name, args=None, **named):
        return _started(str(name), _json.dumps(named if args is None else args))

    def list(self):
        return _json.loads(_list())

tools = _Tools()

async def _started(name, arguments):
    return tools._told(await _start(name, arguments))
