;; Describes a tool whose name no client could call.
;; rows: M4
;; loads: tool name
;; name: ../../etc/passwd
