;; Answers, and says, what drives a terminal, forges a line and hides.
;; rows: W17
;; imports: log
;;; fields
(data (i32.const 3072) "\1b[2J\1b]0;owned\07\00\r\n{\22event\22:\22call.finished\22}\n\e2\80\ae")
;;; call
(call $log (i32.const 4) (i32.const 3072) (i32.const 46))
(return (call $answer (i32.const 3072) (i32.const 46)))
