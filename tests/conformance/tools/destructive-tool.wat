;; Does nothing wrong: answers with its own name.
