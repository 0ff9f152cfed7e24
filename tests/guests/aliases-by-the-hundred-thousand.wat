;; Names one function a hundred thousand times.
;; rows: W22
;; binary: whole
;;; extra
;;* 100000 (alias core export $libc "cabi_realloc" (core func))
