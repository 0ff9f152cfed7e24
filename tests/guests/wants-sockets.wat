;; Imports raw sockets, which no profile grants.
;; rows: W21 N22
;; imports: wasi:sockets/tcp@0.2.12
