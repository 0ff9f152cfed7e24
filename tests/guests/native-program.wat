;; Is the head of a native program.
;; rows: W19
;; loads: neither
;;; raw
ELF
