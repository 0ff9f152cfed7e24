;; Imports raw sockets, which no profile grants.
;; loads: wasi:sockets/tcp@0.2.12
;; imports: sockets
