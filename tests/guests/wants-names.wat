;; Imports the look-up of names, which no profile grants.
;; rows: W21 N22
;; imports: wasi:sockets/ip-name-lookup@0.2.12
