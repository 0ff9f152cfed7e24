;; Imports raw sockets for datagrams, which no profile grants.
;; rows: W21 N22
;; imports: wasi:sockets/udp@0.2.12
