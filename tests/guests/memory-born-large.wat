;; Declares 125 MiB as its initial memory, more than a call has.
;; rows: W6
;; loads: memory_mb
;; pages: 2000
