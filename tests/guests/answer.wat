;; Does nothing wrong: answers with its own name. Stands for every good tool.
;; rows: W23
