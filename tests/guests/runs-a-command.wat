;; Runs a command line in the jail and answers with what it prints.
;; rows: X14
;; ends: any
;; imports: process
;; case: X5 "env; cat /proc/self/environ /proc/$PPID/environ /proc/1/environ"
;; case: X6 "cat /proc/self/fd/3 /proc/self/fd/4 /proc/self/fd/5 /proc/self/fd/6 /proc/self/fd/7 /proc/self/fd/8 /proc/self/fd/9 | head -c 4096"
;; case: X7 "i=0; while [ $i -lt 300 ]; do sleep 300 & i=$((i+1)); done; wait"
;; case: X8 "(setsid sleep 300 &); nohup sleep 300 & sleep 300"
;; case: X8 "trap '' TERM HUP INT; (trap '' TERM HUP; sleep 300) & sleep 300"
;; case: X9 "i=0; while [ $i -lt 200 ]; do (true &); i=$((i+1)); done"
;; case: X10 "yes"
;; case: X10 "head -c 300000000 /dev/zero"
;; case: X10 "yes >&2 & yes"
;; case: X10 "exec >&- 2>&-; sleep 300"
;; case: X11 "head -c 4000000000 /dev/zero | tail -c 2000000000"
;; case: X13 "bash -c \"echo x > /dev/tcp/127.0.0.1/{port}\""
;; case: X13 "python3 -c \"import socket; socket.create_connection(('127.0.0.1', {port}))\""
;; case: X13 "curl -s http://127.0.0.1:{port}/ || wget -q -O- http://127.0.0.1:{port}/"
;; case: X14 "cat {absolute}/canary.txt {outside}/canary.txt {absolute}/secret"
;; case: X14 "find {absolute} -type f -exec cat {} +; ls -R {absolute}"
;; case: X15 "echo changed > {absolute}/canary.txt"
;; case: X15 "touch {absolute}/new.txt; mkdir {absolute}/new; rm -rf {absolute}"
;; case: X15 "cp /bin/true {absolute}/new.txt; mv {absolute}/canary.txt moved; ln {absolute}/canary.txt linked; cat moved linked"
;; case: X15 "dd if=/proc/$PPID/mem of=/dev/null bs=1 count=1; cat /proc/$PPID/maps"
;; case: X16 "unshare -rm sh -c \"cat {absolute}/canary.txt\""
;; case: X16 "mount --bind {absolute} sub; cat sub/canary.txt"
;; case: X17 "echo typed > /dev/tty; cat < /dev/tty"
;; case: X19 "ln -s {absolute} way; cat way/canary.txt; echo x > way/new.txt"
;; case: X19 "cd dir_link && cat canary.txt && echo x > new.txt"
;; case: X19 "cat link relative_link root_link{absolute}/canary.txt"
;;; call
(drop (memory.grow (i32.const 64)))
(local.set $arguments_length (call $payload (local.get $arguments) (local.get $arguments_length)))
(call $run (i32.const 0) (local.get $arguments) (local.get $arguments_length) (i32.const 0) (i32.const 0)
  (i32.const 60000) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 6144))
(if (i32.load8_u (i32.const 6144)) (then unreachable))
(return (call $answer (i32.load (i32.const 6160)) (i32.load (i32.const 6164))))
