//! Servers on this machine that answer as a test says.

use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Hands one connection after the other to `serve`, on a thread of its own, and returns the port.
pub fn listening(mut serve: impl FnMut(TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().for_each(|stream| serve(stream.unwrap())));
    port
}

/// Answers every request with what `answer` makes of its head; returns the address and the heads.
pub fn answering(
    answer: impl Fn(&str) -> Vec<u8> + Send + 'static,
) -> (String, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let port = listening(move |mut stream| {
        let head = read_head(&mut stream);
        let answer = answer(&head);
        seen.lock().unwrap().push(head);
        // Whoever has had enough hangs up: that is no failure of this test.
        let _ = stream.write_all(&answer);
    });
    (format!("http://127.0.0.1:{port}"), asked)
}

/// Reads the head of a request.
pub fn read_head(stream: &mut impl Read) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// Reads a request: its head in lower case, and a body as long as that says.
pub fn read_request(stream: &mut impl Read) -> (String, String) {
    let head = read_head(stream).to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
    let mut body = vec![0; length.and_then(|length| length.parse().ok()).unwrap_or(0)];
    stream.read_exact(&mut body).unwrap();
    (head, String::from_utf8(body).unwrap())
}
