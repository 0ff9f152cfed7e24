;; Answers with its arguments.
;;; call
(return (call $answer (local.get $arguments) (local.get $arguments_length)))
