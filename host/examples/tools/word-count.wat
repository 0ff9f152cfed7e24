;; word_count: a whole tool, written by hand in the text form of a WebAssembly component.
;;
;; Real tools are written in a language (see guest-tools/example-greet for twenty lines of
;; Rust). This one shows that nothing is hidden: it imports nothing, so it asks for nothing and
;; can touch nothing; it exports the one interface that makes a component a tool,
;; `claw:tool/tool@0.1.0` of wit/tool.wit. The host reads, compiles and runs this very file.
(component
  ;; The interface is a component of its own: what it exports becomes the instance below.
  (component $tool
    ;; -- The code -----------------------------------------------------------------------------
    (core module $code
      ;; One page of 64 KiB: constants below 4096, the answers at 2048, and from 4096 on
      ;; whatever the host hands over.
      (memory (export "memory") 1)

      (data (i32.const 16) "word_count")                                               ;; 10 bytes
      (data (i32.const 32) "Count words")                                              ;; 11 bytes
      (data (i32.const 64) "Counts the words and characters of a text. Words are parted by spaces, tabs or line breaks.") ;; 91 bytes
      (data (i32.const 256) "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\",\"description\":\"The text to count in.\"}},\"required\":[\"text\"],\"additionalProperties\":false}") ;; 144 bytes
      (data (i32.const 512) "{\"type\":\"object\",\"properties\":{\"words\":{\"type\":\"integer\"},\"characters\":{\"type\":\"integer\"}},\"required\":[\"words\",\"characters\"],\"additionalProperties\":false}") ;; 154 bytes
      (data (i32.const 1024) "{\"words\":")                                            ;; 9 bytes
      (data (i32.const 1040) ",\"characters\":")                                       ;; 14 bytes

      ;; Where the next allocation goes. Nothing is ever freed: each call gets a fresh instance.
      (global $free (mut i32) (i32.const 4096))
      ;; Where the next byte of the result goes.
      (global $out (mut i32) (i32.const 0))

      ;; The host asks for memory through this before it hands over a string. It asks for new
      ;; memory only: nothing here ever grows.
      (func (export "cabi_realloc") (param $old i32) (param $old_size i32) (param $align i32) (param $size i32) (result i32)
        (local $at i32)
        ;; at = free, rounded up to align; free = at + size
        (local.set $at
          (i32.and
            (i32.add (global.get $free) (i32.sub (local.get $align) (i32.const 1)))
            (i32.sub (i32.const 0) (local.get $align))))
        (global.set $free (i32.add (local.get $at) (local.get $size)))
        ;; Grow by what is missing, in pages; a refusal ends the call.
        (if (i32.gt_u (global.get $free) (i32.mul (memory.size) (i32.const 65536)))
          (then
            (if (i32.eq
                  (memory.grow
                    (i32.add
                      (i32.shr_u (i32.sub (global.get $free) (i32.mul (memory.size) (i32.const 65536))) (i32.const 16))
                      (i32.const 1)))
                  (i32.const -1))
              (then unreachable))))
        (local.get $at))

      ;; describe: func() -> list<definition>. Returns the address of (address, length) of a list
      ;; whose one element, a `definition`, is 56 bytes: strings are (address, length), options
      ;; start with a flag, fields lie in the order of the WIT file.
      (func (export "describe") (result i32)
        (i32.store (i32.const 2048) (i32.const 2064))                   ;; the list: where
        (i32.store (i32.const 2052) (i32.const 1))                      ;; the list: how many
        (call $string (i32.const 2064) (i32.const 16) (i32.const 10))   ;; name
        (i32.store8 (i32.const 2072) (i32.const 1))                     ;; title: some
        (call $string (i32.const 2076) (i32.const 32) (i32.const 11))
        (call $string (i32.const 2084) (i32.const 64) (i32.const 91))   ;; description
        (call $string (i32.const 2092) (i32.const 256) (i32.const 144)) ;; input-schema
        (i32.store8 (i32.const 2100) (i32.const 1))                     ;; output-schema: some
        (call $string (i32.const 2104) (i32.const 512) (i32.const 154))
        ;; annotations: four option<bool>, two bytes each: read-only yes, destructive no,
        ;; idempotent yes, open-world no.
        (i64.store (i32.const 2112) (i64.const 0x0001_0101_0001_0101))
        (i32.const 2048))

      ;; Stores a string's (address, length) at $at.
      (func $string (param $at i32) (param $text i32) (param $length i32)
        (i32.store (local.get $at) (local.get $text))
        (i32.store (i32.add (local.get $at) (i32.const 4)) (local.get $length)))

      ;; call: func(name, arguments) -> result<output, tool-error>. The host has checked the
      ;; arguments, so they are an object whose only member is `text`, a string.
      (func (export "call") (param $name i32) (param $name_length i32) (param $at i32) (param $length i32) (result i32)
        (local $end i32) (local $byte i32) (local $quotes i32)
        (local $in_word i32) (local $words i32) (local $characters i32)
        (local.set $end (i32.add (local.get $at) (local.get $length)))
        ;; Past the third quote the text begins: {"text":"
        (loop $seek
          (local.set $quotes (i32.add (local.get $quotes) (i32.eq (i32.load8_u (local.get $at)) (i32.const 0x22))))
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (br_if $seek (i32.lt_u (local.get $quotes) (i32.const 3))))
        ;; Up to the quote that ends it. A quote in the text is escaped, and skipped as such.
        (block $done
          (loop $next
            (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
            (local.set $byte (i32.load8_u (local.get $at)))
            (br_if $done (i32.eq (local.get $byte) (i32.const 0x22)))
            (if (i32.eq (local.get $byte) (i32.const 0x5c))             ;; a backslash
              (then
                (local.set $at (i32.add (local.get $at) (i32.const 1)))
                (local.set $byte (call $unescape (i32.load8_u (local.get $at))))
                ;; \u takes four digits more.
                (if (i32.eq (i32.load8_u (local.get $at)) (i32.const 0x75))
                  (then (local.set $at (i32.add (local.get $at) (i32.const 4)))))))
            ;; Bytes 10xxxxxx continue a character that was counted.
            (if (i32.ne (i32.and (local.get $byte) (i32.const 0xc0)) (i32.const 0x80))
              (then (local.set $characters (i32.add (local.get $characters) (i32.const 1)))))
            ;; A word begins where something follows what is none.
            (if (call $is_space (local.get $byte))
              (then (local.set $in_word (i32.const 0)))
              (else
                (if (i32.eqz (local.get $in_word))
                  (then (local.set $words (i32.add (local.get $words) (i32.const 1)))))
                (local.set $in_word (i32.const 1))))
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br $next)))
        (call $answer (local.get $words) (local.get $characters)))

      ;; What an escape stands for, as far as it matters here: white space, or a character.
      (func $unescape (param $letter i32) (result i32)
        (if (i32.eq (local.get $letter) (i32.const 0x6e)) (then (return (i32.const 0x0a)))) ;; \n
        (if (i32.eq (local.get $letter) (i32.const 0x72)) (then (return (i32.const 0x0d)))) ;; \r
        (if (i32.eq (local.get $letter) (i32.const 0x74)) (then (return (i32.const 0x09)))) ;; \t
        (i32.const 0x78))

      ;; Space, tab, line feed, vertical tab, form feed, carriage return.
      (func $is_space (param $byte i32) (result i32)
        (i32.or
          (i32.eq (local.get $byte) (i32.const 0x20))
          (i32.lt_u (i32.sub (local.get $byte) (i32.const 0x09)) (i32.const 5))))

      ;; result<output, tool-error> at 2048: ok; no content blocks; structured: some JSON.
      (func $answer (param $words i32) (param $characters i32) (result i32)
        (global.set $out (i32.const 3072))
        (call $copy (i32.const 1024) (i32.const 9))
        (call $number (local.get $words))
        (call $copy (i32.const 1040) (i32.const 14))
        (call $number (local.get $characters))
        (i32.store8 (global.get $out) (i32.const 0x7d))                 ;; }
        (global.set $out (i32.add (global.get $out) (i32.const 1)))
        (i32.store8 (i32.const 2048) (i32.const 0))                     ;; ok
        (call $string (i32.const 2052) (i32.const 0) (i32.const 0))     ;; content: an empty list
        (i32.store8 (i32.const 2060) (i32.const 1))                     ;; structured: some
        (call $string (i32.const 2064) (i32.const 3072) (i32.sub (global.get $out) (i32.const 3072)))
        (i32.const 2048))

      ;; Appends bytes to the result.
      (func $copy (param $from i32) (param $length i32)
        (memory.copy (global.get $out) (local.get $from) (local.get $length))
        (global.set $out (i32.add (global.get $out) (local.get $length))))

      ;; Appends a number in decimal: the front digits first, then the last.
      (func $number (param $value i32)
        (if (i32.ge_u (local.get $value) (i32.const 10))
          (then (call $number (i32.div_u (local.get $value) (i32.const 10)))))
        (i32.store8 (global.get $out)
          (i32.add (i32.const 0x30) (i32.rem_u (local.get $value) (i32.const 10))))
        (global.set $out (i32.add (global.get $out) (i32.const 1)))))

    (core instance $code (instantiate $code))
    (alias core export $code "memory" (core memory $memory))
    (alias core export $code "cabi_realloc" (core func $realloc))

    ;; -- The types of wit/tool.wit, each exported under its name: an interface may only use
    ;; types that it names.
    (type $annotations' (record
      (field "read-only" (option bool)) (field "destructive" (option bool))
      (field "idempotent" (option bool)) (field "open-world" (option bool))))
    (export $annotations "annotations" (type $annotations'))
    (type $definition' (record
      (field "name" string) (field "title" (option string)) (field "description" string)
      (field "input-schema" string) (field "output-schema" (option string))
      (field "annotations" $annotations)))
    (export $definition "definition" (type $definition'))
    (type $blob' (record (field "data" (list u8)) (field "mime-type" string)))
    (export $blob "blob" (type $blob'))
    (type $resource-body' (variant (case "text" string) (case "bytes" (list u8))))
    (export $resource-body "resource-body" (type $resource-body'))
    (type $resource-content' (record
      (field "uri" string) (field "mime-type" (option string)) (field "body" $resource-body)))
    (export $resource-content "resource-content" (type $resource-content'))
    (type $content' (variant
      (case "text" string) (case "image" $blob) (case "audio" $blob)
      (case "resource" $resource-content)))
    (export $content "content" (type $content'))
    (type $output' (record
      (field "content" (list $content)) (field "structured" (option string))))
    (export $output "output" (type $output'))
    (type $tool-error' (variant
      (case "not-found" string) (case "invalid-args" string) (case "execution-failed" string)
      (case "permission-denied" string) (case "file-not-found" string)
      (case "invalid-path" string) (case "timeout" string)))
    (export $tool-error "tool-error" (type $tool-error'))

    ;; -- From memory to values: the code's two functions, lifted.
    (func $describe (result (list $definition))
      (canon lift (core func $code "describe") (memory $memory)))
    (export "describe" (func $describe))
    (func $call
      (param "name" string) (param "arguments" string) (result (result $output (error $tool-error)))
      (canon lift (core func $code "call") (memory $memory) (realloc $realloc)))
    (export "call" (func $call)))

  (instance $tool (instantiate $tool))
  (export "claw:tool/tool@0.1.0" (instance $tool)))
