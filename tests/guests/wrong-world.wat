;; A sound component for a version of our world that this host does not know.
;; rows: W19
;; loads: another world
;; export: claw:tool/tool@0.2.0
