//! The data of server-sent events (HTML), however they are cut into pieces and whatever ends their lines.
//!
//! Deliberately absent: their kinds, their ids and when to come again.

use std::mem;

const BOM: &[u8] = b"\xef\xbb\xbf";
/// What stands in a line beside data, and more.
const KEY_BYTES: usize = 16;

/// A reader of one stream.
#[derive(Debug, Default)]
pub(crate) struct Events {
    line: Vec<u8>,
    is_after_return: bool,
    has_begun: bool,
    /// The lines of an event's data so far.
    data: Vec<u8>,
}

impl Events {
    /// Takes `bytes` up to the end of an event with data, and returns that; all of them where none ends there.
    /// Of data beyond `bytes_max` only the first byte is there.
    pub(crate) fn next(&mut self, bytes: &mut &[u8], bytes_max: usize) -> Option<Vec<u8>> {
        while let Some((byte, rest)) = bytes.split_first() {
            *bytes = rest;
            match (byte, mem::replace(&mut self.is_after_return, *byte == b'\r')) {
                // Both end one line.
                (b'\n', true) => {}
                (b'\n' | b'\r', _) => match self.end_line(bytes_max) {
                    None => {}
                    event => return event,
                },
                _ if self.line.len() < bytes_max + KEY_BYTES => self.line.push(*byte),
                _ => {}
            }
        }
        None
    }

    /// Says whether the event that has begun is over `bytes_max` already, or a line that nothing ends.
    pub(crate) fn is_too_long(&self, bytes_max: usize) -> bool {
        self.data.len() > bytes_max + 1 || self.line.len() >= bytes_max + KEY_BYTES
    }

    fn end_line(&mut self, bytes_max: usize) -> Option<Vec<u8>> {
        let line = mem::take(&mut self.line);
        // A stream may begin with a mark of its byte order; in another line that is like any letter.
        let is_first = !mem::replace(&mut self.has_begun, true);
        let line = line.strip_prefix(BOM).filter(|_| is_first).unwrap_or(&line);
        if let Some(data) = line.strip_prefix(b"data:") {
            let data = data.strip_prefix(b" ").unwrap_or(data);
            let room = (bytes_max + 2).saturating_sub(self.data.len());
            self.data.extend(data.iter().chain(b"\n").take(room));
        }
        let is_end = line.is_empty() && self.data.pop().is_some();
        is_end.then(|| mem::take(&mut self.data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, size: usize) -> Vec<String> {
        let (mut events, mut found) = (Events::default(), Vec::new());
        for mut part in text.as_bytes().chunks(size) {
            while let Some(event) = events.next(&mut part, 8) {
                found.push(event);
            }
        }
        found.into_iter().map(|event| String::from_utf8(event).unwrap()).collect()
    }

    #[test]
    fn the_data_of_events_is_read_and_nothing_else() {
        let text = "\u{feff}data: {\"a\":\nevent: message\ndata: 1}\n\n: hello\nid: 1\n\nretry: 5\n\n\
                    data:x\n\ndata: \n\ndata: cut";
        for end in ["\n", "\r", "\r\n"] {
            let text = text.replace('\n', end);
            for size in [1, 2, 7, text.len()] {
                assert_eq!(read(&text, size), ["{\"a\":\n1}", "x", ""], "{end:?} {size}");
            }
        }
    }

    #[test]
    fn only_a_stream_begins_with_a_mark_of_its_byte_order() {
        for (text, events) in [
            ("\u{feff}data:1\n\n", &["1"][..]),
            ("\u{feff}\ndata:1\n\n", &["1"]),
            ("data:1\n\n\u{feff}data:2\n\n", &["1"]),
            ("\n\u{feff}data:1\n\n", &[]),
            ("\u{feff}\u{feff}data:1\n\n", &[]),
            ("data:1\n\u{feff}\ndata:2\n\n", &["1\n2"]),
        ] {
            assert_eq!(read(text, 1), events, "{text:?}");
        }
    }

    #[test]
    fn what_gets_too_long_is_known_before_it_ends() {
        for (text, is_too_long) in [
            ("data: 12345678", false),
            ("data: 12345678\n", false),
            ("\u{feff}data: 12345678\r", false),
            ("data: 123456789\n", true),
            ("data:1234\ndata:567\n", false),
            ("data:1234\ndata:5678\n", true),
            ("data: 123456789\n\ndata: 1", false),
            ("data: 1234567890123456789", true),
            (": 123456789012345678901234", true),
        ] {
            let mut events = Events::default();
            for part in text.as_bytes().chunks(7) {
                let mut part = part;
                while events.next(&mut part, 8).is_some() {}
            }
            assert_eq!(events.is_too_long(8), is_too_long, "{text:?}");
        }
    }

    #[test]
    fn what_is_too_long_is_not_held_and_the_next_event_is_whole() {
        for (long, held) in
            [("data:123456789123456789", "123456789"), ("data:1234\ndata:5678", "1234\n5678")]
        {
            for size in [1, 7, 200] {
                let found = read(&format!("data: 12345678\n\n{long}\n\ndata: y\n\n"), size);
                assert_eq!(found, ["12345678", held, "y"], "{long} {size}");
            }
        }
    }
}
