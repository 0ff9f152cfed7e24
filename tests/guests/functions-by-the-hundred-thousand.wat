;; Has more functions than are compiled.
;; rows: W20
;; loads: functions
;;; fields
;;* 100001 (func)
