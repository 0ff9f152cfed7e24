//! Verdicts of whole rule sets, by the numbers of the attacks they answer.

use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::violation::Lack;

fn open() -> EgressRules {
    EgressRules::of(HostRules::Any)
}

fn only(patterns: &[&str]) -> EgressRules {
    let patterns = patterns.iter().map(|text| HostPattern::parse(text).unwrap()).collect();
    EgressRules::of(HostRules::Only(patterns))
}

fn check(rules: &EgressRules, text: &str) -> Result<Target, Reason> {
    let checked = parse_url(text).and_then(|url| rules.check_url(&url));
    checked.map_err(|denied| denied.reason())
}

#[track_caller]
fn all_refused(rules: &EgressRules, urls: &[&str]) {
    for url in urls {
        assert!(check(rules, url).is_err(), "{url:?} -> {:?}", check(rules, url));
    }
}

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn a_public_url_says_where_it_leads() {
    let target = check(&open(), "https://Example.COM./a?b#c").unwrap();
    assert_eq!(
        target,
        Target { host: TargetHost::Name("example.com".into()), port: 443, tls: true }
    );
    assert_eq!(target.authority(), "example.com");
    let target = check(&open(), "http://[2606:4700:4700::1111]:443/").unwrap();
    assert_eq!(target.authority(), "[2606:4700:4700::1111]:443");
    assert_eq!(check(&open(), "http://8.8.8.8/").unwrap().authority(), "8.8.8.8");
}

#[test]
fn n1_loopback_is_refused_in_every_spelling() {
    let names = ["localhost", "localhost.", "LOCALHOST", "a.localhost", "127.0.0.1", "127.1"];
    for name in names.into_iter().chain(["127.255.255.254", "127.0.0.1."]) {
        assert_eq!(check(&open(), &format!("http://{name}/")), Err(Reason::Address), "{name}");
    }
}

#[test]
fn n2_numeric_spellings_are_read_as_the_address_they_are() {
    let numbers = ["2130706433", "0177.0.0.1", "0x7f000001", "0x7f.0.1", "017700000001", "127.0x1"];
    for number in numbers {
        assert_eq!(check(&open(), &format!("http://{number}/")), Err(Reason::Address), "{number}");
    }
    all_refused(
        &open(),
        &["http://4294967297/", "http://256.1.1.1/", "http://1.2.3.4.5/", "http://0x/"],
    );
}

#[test]
fn n3_unspecified_addresses_are_refused() {
    all_refused(&open(), &["http://0.0.0.0/", "http://0/", "http://[::]/", "http://[::1]/"]);
}

#[test]
fn n4_embedded_and_local_ipv6_is_refused() {
    let hosts = [
        "::ffff:127.0.0.1", "::ffff:7f00:1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::7f00:1",
        "2002:7f00:1::", "2001:0:7f00:1::", "fec0::1", "fc00::1", "fd00:ec2::254", "fe80::1",
        "fe80::1%25lo", "fe80::1%lo", "ff02::1", "2001:db8::1",
    ];
    for host in hosts {
        all_refused(&open(), &[&format!("http://[{host}]/")]);
    }
}

#[test]
fn n5_private_and_reserved_ipv4_is_refused() {
    let hosts = [
        "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "192.0.0.8",
        "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "168.63.129.16",
        "100.100.100.200", "metadata.google.internal",
    ];
    for host in hosts {
        assert_eq!(check(&open(), &format!("http://{host}/")), Err(Reason::Address), "{host}");
    }
}

#[test]
fn n6_the_host_is_the_one_connected_to() {
    let rules = only(&["allowed.com"]);
    all_refused(
        &rules,
        &[
            "http://allowed.com@127.0.0.1/",
            "http://allowed.com:x@evil.com/",
            "http://a@b@allowed.com/",
            r"http://allowed.com\@evil.com/",
            r"http://evil.com\@allowed.com/",
            "http://evil.com#@allowed.com/",
            "http://evil.com?@allowed.com/",
            "http://evil.com/@allowed.com/",
            r"http:\\allowed.com/",
            "http://allowed.com%2eevil.com/",
            "http://allowed.com%00.evil.com/",
            "http://allowed.com	.evil.com/",
            "http://user@allowed.com/",
            "http:///",
            "http://",
            "//allowed.com/",
            "allowed.com",
            "http:allowed.com/",
            "http:/allowed.com/",
            "http:///allowed.com/",
            "http:@allowed.com/",
            "http://@allowed.com/",
            "http://:@allowed.com/",
            "http://ex[.com/",
            "http://allowed.com,evil.com/",
            "http://allowed.com;@evil.com/",
            "http://allowed.com`/",
        ],
    );
    assert_eq!(check(&rules, "http://allowed.com#@evil.com/").unwrap().authority(), "allowed.com");
}

#[test]
fn n7_what_parsers_read_differently_is_refused_or_read_once() {
    // Failures of the WHATWG collection of URLs and their neighbours: to some parser each of them
    // is an address of an allowed host.
    let rules = only(&["allowed.com", "127.0.0.1"]);
    all_refused(
        &rules,
        &[
            "http://allowed.com:b/",
            "http://allowed.com:80:443/",
            "http://allowed.com:-80/",
            "http://allowed.com: 80/",
            "http://allowed.com:+80/",
            "http://allowed.com:65536/",
            "http://allowed.com%",
            "http://allowed.com%2f@evil.com/",
            "http://allowed.com%zz/",
            "http://[allowed.com]/",
            "http://[127.0.0.1]/",
            "http://[::1%25lo]/",
            "http://[::127.0.0.1.]/",
            "http://[::1",
            "http://::1]/",
            "http://[:]/",
            "http://[::1]allowed.com/",
            "http://allowed.com[::1]/",
            "http://allowed.com<evil/",
            "http://allowed.com>evil/",
            "http://allowed.com^evil/",
            "http://allowed.com|evil/",
            "http://allowed.com\u{0}/",
            "http://allowed.com\u{7f}/",
            "http://allowed.com\u{3000}evil.com/",
            "http://allowed\u{2024}com.evil.com/",
            "http://allowed.com\u{ff0f}.evil.com/",
            "http://\u{ad}/",
            "http://xn--/",
            "http://a.b.c.xn--pokxncvks/",
            "http://127.0.0.1.allowed.com/",
            "http://127.0.0.1.1/",
            "http://127.0.0.0x/",
            "http://09.0.0.1/",
            "http://0x100000001/",
            "http://1e2/",
            "http:\\\\allowed.com/",
            "http:/\\allowed.com/",
            "http://\\allowed.com/",
            "http:////allowed.com/",
            "https:allowed.com",
            "http://?allowed.com",
            "http://#allowed.com",
            "http://@/allowed.com",
            "http://user:@allowed.com/",
            "\u{feff}http://allowed.com/",
            " http://allowed.com/",
            "http://allowed.com/ x",
            "ht\ttp://allowed.com/",
            "http\n://allowed.com/",
        ],
    );
    // One reading, and it is the one that is connected to.
    let rules = EgressRules { block_private: false, ..rules };
    for (url, host) in [
        ("HTTP://ALLOWED.COM/", "allowed.com"),
        ("http://allowed.com./", "allowed.com"),
        ("http://%61llowed.com/", "allowed.com"),
        ("http://allowed.com/?@evil.com", "allowed.com"),
        ("http://allowed.com/..//evil.com", "allowed.com"),
        ("http://017700000001/", "127.0.0.1"),
    ] {
        assert_eq!(check(&rules, url).unwrap().authority(), host, "{url}");
    }
}

#[test]
fn n8_international_spellings_are_mapped_before_the_check() {
    let loopback = [
        "１２７.０.０.１", "①②⑦.⓪.⓪.①", "127。0。0。1", "127.0.0.\u{ad}1", "loc\u{ad}alhost",
        "ｌｏｃａｌｈｏｓｔ",
    ];
    for host in loopback {
        assert_eq!(check(&open(), &format!("http://{host}/")), Err(Reason::Address), "{host:?}");
    }
    let rules = only(&["faß.example"]);
    assert_eq!(
        check(&rules, "http://xn--fa-hia.example/").unwrap().authority(),
        "xn--fa-hia.example"
    );
    assert_eq!(check(&rules, "http://fass.example/"), Err(Reason::Host));
    all_refused(
        &open(),
        &["http://xn--/", "http://xn--a-ecp.ru/", "http://a\u{200b}b\u{202e}.com\\/"],
    );
}

#[test]
fn n9_the_allow_list_is_exact_or_dot_bounded() {
    let rules = only(&["allowed.com", "*.wild.com"]);
    for host in ["allowed.com", "ALLOWED.com.", "a.wild.com", "b.a.wild.com:443", "allowed.com:80"]
    {
        assert!(check(&rules, &format!("https://{host}/")).is_ok(), "{host}");
    }
    for host in
        ["allowed.com.evil.com", "evilallowed.com", "a.allowed.com", "wild.com", "evilwild.com"]
    {
        assert_eq!(check(&rules, &format!("https://{host}/")), Err(Reason::Host), "{host}");
    }
    all_refused(&rules, &["http://allowed.com../", "http://.allowed.com/", "http://a..wild.com/"]);
    assert_eq!(check(&only(&[]), "http://allowed.com/"), Err(Reason::Host));
}

#[test]
fn a_blocked_host_is_refused_even_where_all_are_allowed() {
    let blocked =
        vec![HostPattern::parse("bad.com").unwrap(), HostPattern::parse("9.9.9.9").unwrap()];
    let rules = EgressRules { blocked, ..open() };
    all_refused(
        &rules,
        &["http://bad.com/", "http://x.bad.com./", "http://9.9.9.9/", "http://0x9090909/"],
    );
    assert!(check(&rules, "http://notbad.com/").is_ok());
    assert!(rules.check_addresses(&ips(&["9.9.9.9"])).is_err());
}

#[test]
fn a_host_or_port_that_is_not_listed_lacks_a_grant_and_a_blocked_host_lacks_none() {
    let rules = EgressRules {
        blocked: vec![HostPattern::parse("bad.a.com").unwrap()],
        ..only(&["*.a.com"])
    };
    let lacks = |url| rules.check_url(&parse_url(url).unwrap()).unwrap_err().violation().lacks;
    assert_eq!(lacks("http://b.com/"), Some(Lack::Host("b.com".to_owned())));
    assert_eq!(lacks("http://x.a.com:81/"), Some(Lack::Port(81)));
    assert_eq!(lacks("http://bad.a.com/"), None);
}

#[test]
fn n10_one_private_answer_refuses_the_whole_name() {
    assert_eq!(
        open().check_addresses(&ips(&["8.8.8.8", "1.1.1.1", "8.8.8.8"])),
        Ok(ips(&["8.8.8.8", "1.1.1.1"]))
    );
    for private in ["127.0.0.1", "::1", "10.0.0.1", "169.254.169.254", "::ffff:8.8.8.8", "fe80::1"]
    {
        assert!(open().check_addresses(&ips(&["8.8.8.8", private])).is_err(), "{private}");
    }
    assert!(open().check_addresses(&[]).is_err());
}

#[test]
fn n14_only_the_web_schemes_pass() {
    for url in [
        "file:///etc/passwd", "ftp://a.com/", "gopher://a.com/", "dict://a.com/",
        "jar:http://a.com/", "ws://a.com/", "wss://a.com/", "data:,x", "unix:/run/x",
        "javascript:1", "blob:http://a.com/x",
    ] {
        assert_eq!(check(&open(), url), Err(Reason::Scheme), "{url}");
    }
}

#[test]
fn n20_ports_are_closed_unless_listed() {
    for port in [1, 22, 25, 81, 6379, 8080, 65535] {
        assert_eq!(check(&open(), &format!("http://a.com:{port}/")), Err(Reason::Port), "{port}");
    }
    assert!(
        check(&open(), "http://a.com:443/").is_ok() && check(&open(), "https://a.com:80/").is_ok()
    );
    let rules = EgressRules { ports: vec![8080], ..open() };
    assert!(check(&rules, "http://a.com:8080/").is_ok());
    assert_eq!(check(&rules, "http://a.com/"), Err(Reason::Port));
    let rules = EgressRules { ports: vec![0], ..open() };
    assert_eq!(check(&rules, "http://a.com:0/"), Err(Reason::Port));
    all_refused(&open(), &["http://a.com:65536/", "http://a.com:-1/", "http://a.com:80:80/"]);
}

#[test]
fn private_addresses_may_be_opened_but_metadata_only_by_its_address() {
    let rules = EgressRules { block_private: false, ..open() };
    for host in ["127.0.0.1", "localhost", "10.0.0.1", "[::1]", "[fd12::1]"] {
        assert!(check(&rules, &format!("http://{host}/")).is_ok(), "{host}");
    }
    for host in [
        "169.254.169.254", "[fd00:ec2::254]", "[::ffff:a9fe:a9fe]", "metadata.google.internal",
        "0.0.0.0",
    ] {
        assert!(check(&rules, &format!("http://{host}/")).is_err(), "{host}");
    }
    let listed = EgressRules { block_private: false, ..only(&["169.254.169.254"]) };
    assert!(check(&listed, "http://169.254.169.254/latest").is_ok());
    let still_private = only(&["127.0.0.1", "169.254.169.254"]);
    all_refused(&still_private, &["http://127.0.0.1/", "http://169.254.169.254/"]);
}

#[test]
fn this_machine_is_every_loopback_address_and_one_name() {
    let here = |host: &str| url::Host::parse(host).is_ok_and(is_this_machine);
    for host in ["127.0.0.1", "127.8.9.1", "[::1]", "[::ffff:127.0.0.1]", "LOCALHOST", "localhost."]
    {
        assert!(here(host), "{host}");
    }
    for host in ["", "0.0.0.0", "[::]", "10.0.0.1", "a.localhost", "localhost.test", "[::2]"] {
        assert!(!here(host), "{host}");
    }
}

proptest! {
    #[test]
    fn every_spelling_of_an_address_gets_the_verdict_of_the_address(bits: u32) {
        let ip = std::net::Ipv4Addr::from_bits(bits);
        let [a, b, c, d] = ip.octets();
        let allowed = open().check_addresses(&[ip.into()]).is_ok();
        let spellings = [
            format!("{ip}"), format!("{ip}."), format!("{bits}"), format!("{bits:#x}"), format!("0{bits:o}"),
            format!("{a:#x}.0{b:o}.{c}.{d:#X}"), format!("{a}.{}", bits & 0xff_ffff),
        ];
        for spelling in spellings {
            let verdict = check(&open(), &format!("http://{spelling}/"));
            prop_assert_eq!(verdict.is_ok(), allowed, "{}", spelling);
        }
        let wrapped = [
            format!("::ffff:{ip}"), format!("::{ip}"), format!("64:ff9b::{ip}"),
            format!("2002:{a:02x}{b:02x}:{c:02x}{d:02x}::"),
        ];
        for wrapper in wrapped {
            prop_assert!(check(&open(), &format!("http://[{wrapper}]/")).is_err(), "{}", wrapper);
        }
    }

    #[test]
    fn whatever_passes_is_on_the_list_and_on_the_internet(text in ".{0,40}") {
        let rules = only(&["allowed.com", "*.wild.com", "10.0.0.1", "9.9.9.9"]);
        for url in [text.clone(), format!("http://{text}"), format!("http://{text}@allowed.com{text}")] {
            if let Ok(target) = check(&rules, &url) {
                let host = target.host.to_string();
                prop_assert!(
                    ["allowed.com", "9.9.9.9"].contains(&host.as_str()) || host.ends_with(".wild.com"),
                    "{} leads to {}", url, host
                );
            }
        }
    }
}
