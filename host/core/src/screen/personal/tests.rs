use super::*;

fn found(text: &str) -> Vec<(&'static str, String)> {
    let mut wanted = Wanted::all_of("pii");
    super::super::kinds_of("internal")
        .iter()
        .for_each(|kind| wanted.add(kind, "", super::super::Action::Warn));
    let mut found = Vec::new();
    search(text, &wanted, &mut |at, name, said| {
        assert_eq!(text.get(at), Some(said));
        found.push((name, said.to_owned()));
    });
    found
}

#[test]
fn every_expression_can_be_compiled_and_every_kind_has_one() {
    assert_eq!(REGEXES.len(), SHAPES.len());
    for (_, kind) in KINDS {
        assert!(SHAPES.iter().any(|shape| shape.kinds.contains(&kind)), "{kind}");
    }
}

#[test]
fn each_kind_is_found_where_people_write_it() {
    for (text, kind, said) in [
        ("mail <ann.b+c@mail.corp.test>, or", EMAIL, "ann.b+c@mail.corp.test"),
        ("ann@mail.corp.test:hunter2", EMAIL, "ann@mail.corp.test"),
        ("call +44 20 7946 0958 2024-11-22", PHONE, "+44 20 7946 0958"),
        ("+7 495 123-45-67 2024", PHONE, "+7 495 123-45-67"),
        ("+1 202 555 0143 22", PHONE, "+1 202 555 0143"),
        ("(202) 555-0143", PHONE, "(202) 555-0143"),
        ("202.555.0143.", PHONE, "202.555.0143"),
        ("call 202 555 0143", PHONE, "202 555 0143"),
        ("\"phone\": \"2025550143\"", PHONE, "2025550143"),
        ("tel: 020 7946 0958", PHONE, "020 7946 0958"),
        ("is 123-45-6789.", SSN, "123-45-6789"),
        ("SSN: 123456789", SSN, "123456789"),
        ("42 4111 1111 1111 1111 7", CARD, "4111 1111 1111 1111"),
        ("3782-822463-10005", CARD, "3782-822463-10005"),
        ("4111111111111111 12/26 123", CARD, "4111111111111111"),
        ("4111 1111 1111 1111 123", CARD, "4111 1111 1111 1111"),
        ("378282246310005 1234", CARD, "378282246310005"),
        ("pay DE89 3704 0044 0532 0130 00 NOW", IBAN, "DE89 3704 0044 0532 0130 00"),
        ("GB29NWBK60161331926819", IBAN, "GB29NWBK60161331926819"),
        ("BY13NBRB3600900000002Z00AB00", IBAN, "BY13NBRB3600900000002Z00AB00"),
        ("from 81.2.69.142:443", IP, "81.2.69.142"),
        ("dns 8.8.8.8", IP, "8.8.8.8"),
        ("http://1.2.3.4/", IP, "1.2.3.4"),
        ("[2001:4860:4860::8888]:443", IP, "2001:4860:4860::8888"),
        ("to 192.168.7.12/24", PRIVATE_IP, "192.168.7.12"),
        ("fe80::1ff:fe23:4567:890a", PRIVATE_IP, "fe80::1ff:fe23:4567:890a"),
        ("http://metadata.google.internal/v1", INTERNAL_HOST, "metadata.google.internal"),
        ("db.prod.svc.cluster.local:5432", INTERNAL_HOST, "db.prod.svc.cluster.local"),
        ("http://localhost:8080/x", LOCAL_PORT, "localhost:8080"),
        ("at [::1]:9000", LOCAL_PORT, "[::1]:9000"),
    ] {
        assert_eq!(found(text), [(kind, said.to_owned())], "{text}");
    }
}

#[test]
fn what_only_looks_like_one_is_left_alone() {
    for text in [
        "git@github.com:a/b.git",
        "git@host.test:a.git",
        "scp f ann@host.test:~/f",
        "https://user@host.test/",
        "icon@2x.png",
        "@types/node@20.1.2",
        "a@b",
        "2024-11-22T10:20:30.123+02:00",
        "+1700000000",
        "+1 1000 200 300 400",
        "+7 2024-11-22 10 30 00",
        "id 550e8400-e29b-41d4-a716-446655440000",
        "part 800-123-4567-89",
        "200 512 1024",
        "200 123 4567",
        "000-12-3456",
        "2024-12-3456",
        "4111 1111 1111 1112",
        "span_id=4111111111111111",
        "0.4111111111111111",
        "1700000000123456",
        "GB29NWBK60161331926818",
        "XX29NWBK60161331926819",
        "version 1.2.3.4",
        "v10.1.2.3",
        "Chrome/120.0.0.0",
        "1.3.6.1.4.1",
        "1.2.3.4-rc1",
        "lib==1.20.300.4",
        "255.255.255.0",
        "0.0.0.0",
        "127.0.0.1",
        "999.1.2.3",
        "12:34:56",
        "00:1b:44:11:3a:b7",
        "dead::beef",
        "com.example.internal.Foo",
        "self.internal",
        "localhost",
        "localhost:x",
        "my-localhost:8080",
    ] {
        assert_eq!(found(text), [], "{text}");
    }
}

#[test]
fn a_hostile_text_is_searched_in_one_go() {
    for piece in [
        "a.", "a@", "a@b.", "1 ", "1-", "4", "4111 ", "GB29", "GB29 NWBK ", "+1 ", "(202) ", "1.",
        "1:", "f:", "::", "phone: 1", "a.internal.", "localhost:",
    ] {
        found(&piece.repeat((1 << 18) / piece.len()));
    }
}
