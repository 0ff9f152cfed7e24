;; Describes a tool whose name no client could call.
;; loads: tool name
;; name: ../../etc/passwd
