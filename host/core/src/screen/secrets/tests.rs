//! Tokens are put together here, so that no file of this tree holds one.

use super::super::find::{self, Hit};
use super::super::tokens::Tokens;
use super::*;
use proptest::prelude::*;

fn find(key: Option<&str>, text: &str) -> Vec<Hit> {
    find::find(key, text, &Wanted::all_of("secrets"), &Tokens::default())
}

fn redact(key: Option<&str>, text: &str) -> Option<String> {
    let hits = find(key, text);
    (!hits.is_empty()).then(|| find::replace(text, 0..text.len(), &hits))
}

/// Random-looking text of an alphabet that all tokens share.
fn random(long: usize) -> String {
    "Q7ZK4XW9RT2B6NM8".chars().cycle().take(long).collect()
}

fn names(text: &str) -> Vec<&'static str> {
    find(None, text).into_iter().map(|hit| hit.name).collect()
}

#[test]
fn every_kind_is_found_and_taken_out_of_the_text_around_it() {
    let key = random(20);
    for (secret, name) in [
        (format!("AKIA{}", random(16)), "AWS access key id"),
        (format!("ghp_{}", random(36)), "GitHub token"),
        (format!("github_pat_{}", random(82)), "GitHub token"),
        (format!("glpat-{}", random(20)), "GitLab token"),
        (format!("xoxb-{}-{}", random(12), random(24)), "Slack token"),
        (format!("hooks.slack.com/services/T{}/B{}", random(12), random(24)), "Slack webhook"),
        (format!("AIza{}", random(35)), "Google API key"),
        (format!("sk_live_{}", random(24)), "Stripe key"),
        (format!("sk-ant-{}", random(40)), "model provider key"),
        (format!("sk-{}", random(48)), "model provider key"),
        (format!("hf_{}", random(34)), "model hub token"),
        (format!("npm_{}", random(36)), "package token"),
        (format!("SG.{}.{}", random(22), random(43)), "mail service key"),
        (format!("eyJ{}.eyJ{}.{}", random(20), random(30), random(43)), "signed token"),
        (
            format!("-----BEGIN RSA PRIVATE KEY-----\n{key}\n{key}\n-----END RSA PRIVATE KEY-----"),
            "private key",
        ),
        (format!("sk-svcacct-{}", random(30)), "model provider key"),
        (format!("sk-or-v1-{}", random(48)), "model provider key"),
        (
            format!(
                "-----BEGIN PGP PRIVATE KEY BLOCK-----\n{key}\n-----END PGP PRIVATE KEY BLOCK-----"
            ),
            "private key",
        ),
        (format!("-----BEGIN PRIVATE KEY-----\\n{key}\\n-----END PRIVATE KEY-----"), "private key"),
    ] {
        for text in [
            secret.clone(),
            format!("a {secret}, b"),
            format!("x=\"{secret}\"\ny"),
            format!("KEY:{secret}\t"),
        ] {
            assert_eq!(names(&text), [name], "{text}");
            let redacted = redact(None, &text).unwrap();
            assert_eq!(redacted, text.replace(&secret, &format!("[redacted: {name}]")));
        }
    }
}

#[test]
fn values_under_a_telling_name_are_found_and_the_name_stays() {
    let value = "hunter2hunter2";
    for (before, after) in [
        ("password=", ""),
        ("DB_PASSWORD = ", "\nUSER=x"),
        ("{\"api_key\": \"", "\"}"),
        ("\\\"clientSecret\\\":\\\"", "\\\""),
        ("secret_access_key := '", "'"),
        ("?api-key=", "&x=1"),
        ("passwd: ", " # keep"),
        ("private_key => \"", "\","),
        ("Authorization: Bearer abc12", "34.5678-hunter2"),
        ("postgres://app:", "@db.test/x"),
        ("https://", "@db.test/x"),
        ("DB_PASS=", "\n"),
        (".env:12:password=", "\n"),
        ("password:\n  ", "\n"),
        ("{\"key\": \"password\",\n    \"value\": \"", "\"}"),
        ("- name: DB_PASSWORD\n  value: ", "\n"),
        ("{\\\"name\\\":\\\"secret\\\",\\\"value\\\":\\\"", "\\\"}"),
        ("mysql --password ", " db"),
        ("tool --db-password '", "'"),
        ("machine api.test login ann password ", "\n"),
        ("token: a1B2c3D4e5F6", ""),
        ("GITHUB_TOKEN=a1B2c3D4e5F6", ""),
        ("Authorization: Basic ", "ZgZg=="),
    ] {
        let text = format!("{before}{value}{after}");
        let redacted = redact(None, &text).unwrap_or_default();
        assert!(!redacted.is_empty() && !redacted.contains(value), "{text}: {redacted}");
        let kept = before.trim_end_matches("abc12").trim_end_matches("a1B2c3D4e5F6");
        assert!(redacted.starts_with(kept), "{text}: {redacted}");
    }
    for value in ["hunt&er2hunter2", "h,unter2(hunter2)", "hunter2;[2]"] {
        for quote in ["\"", "'", "\\\"", "\"\"\""] {
            let redacted = redact(None, &format!("password: {quote}{value}{quote}, b: c"));
            let expected = format!("password: {quote}[redacted: password or key]{quote}, b: c");
            assert_eq!(redacted, Some(expected), "{value}");
        }
    }
    assert_eq!(redact(Some("password"), value).unwrap(), "[redacted: password or key]");
    assert_eq!(redact(Some("DB_API_KEY"), value).unwrap(), "[redacted: password or key]");
    assert_eq!(redact(Some("note"), value), None);
}

#[test]
fn what_only_looks_a_little_like_a_credential_is_left_alone() {
    for text in [
        "",
        "AKIAIOSFODNN7EXAMPLE",
        "akiaq7zk4xw9rt2b6nm8",
        "XAKIAQ7ZK4XW9RT2B6NM8Q7",
        "ghp_short",
        "see ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "sk-fading-circle and sk-cube-grid are style sheets",
        "the task-skeletonwithaverylongnamethatgoesonandon",
        "xoxb-",
        "eyJhbGciOiJub25lIn0",
        "hello.world.example",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "commit 2d839b5a9f86d081884c7d659a2feaa0c55ad015",
        "550e8400-e29b-41d4-a716-446655440000",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----",
        "password: string",
        "password:\n  secretRef1: db",
        "password:\n\nsection1 of the manual",
        "nextPageToken: Q7ZK4XW9RT2B6NM8Q7ZK4XW9",
        "page_token=Q7ZK4XW9RT2B6NM8Q7ZK4XW9",
        "unexpected token: identifier1",
        "PASS: tests/it/case_12.rs",
        "bypass=enabled1234",
        "Authorization: Basic credentials",
        "https://johnsmith1987@host.test/x",
        "https://john.smith1987.x@host.test/x",
        "the disk-proj-colony-optimisation-2024-final",
        "password = input('Password 1: ')",
        "\"password\": \"\"",
        "{password:\"\",retries:3,timeout:500}",
        "connect(password='',port=5432)",
        "TOKEN=\\\"\\\";EXPIRES=3600;PORT=5432",
        "s3_secret_key = \"env(S3_SECRET_KEY)\"",
        "\"password\": \"required,min=8\"",
        "'password' => 'required|min:8'",
        "password=${DB_PASSWORD_1}",
        "password = \"x{DB_PASSWORD_1}\"",
        "api_key: <your key 1>",
        "API_KEY=your_api_key_1",
        "api_key = os.environ[\"API_KEY_1\"]",
        "PWD=/home/user1/project2",
        "password, or a value of its own: hunter2hunter2",
        "password must have 8 characters and 1 digit",
        "password hunter2hunter2",
        "tool --password --user johnsmith1987",
        "tool --password\njohnsmith1987",
        "The secret: nobody knows it",
        "secret: kubernetes.io/tls",
        "http://example.test:8080/a@b",
        "https://user@host1.test/x",
        "ssh://git:password@host.test",
        "the bearer of this letter2024",
        "Bearer token",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
        "hf_hub_download_with_a_long_name_of_a_function",
        "npm_config_registry_of_the_whole_organisation",
    ] {
        assert_eq!(names(text), [""; 0], "{text}");
        assert_eq!(redact(None, text), None, "{text}");
    }
    for value in ["string", "hunter2", "correct horse battery 1", "your_password_1", "********1a"] {
        assert_eq!(redact(Some("password"), value), None, "{value}");
    }
}

#[test]
fn a_token_is_found_behind_a_letter_and_with_invisible_characters_inside() {
    let token = random(36);
    for (text, expected) in [
        (format!("xghp_{token} y"), "x[redacted: GitHub token] y"),
        (
            format!("é\u{200b}ghp\u{200b}_{token}\u{200b}\u{fe0f} y"),
            "é\u{200b}[redacted: GitHub token]\u{200b}\u{fe0f} y",
        ),
        (format!("\u{200b}ghp_{token}ghp_{token}"), "\u{200b}[redacted: GitHub token]"),
    ] {
        let redacted = redact(None, &text).unwrap();
        assert!(redacted.starts_with(expected), "{text}: {redacted}");
    }
}

/// Bytes looked at, beside the search itself.
fn work(text: &str) -> usize {
    let mut judge = Judge::new(text);
    judged(&mut judge, text, &Wanted::all_of("secrets"), &mut |_, _, _| {});
    judge.work
}

#[test]
fn no_text_is_looked_at_more_than_a_few_times() {
    let names = "password=".repeat(28);
    for piece in [
        "password=",
        "password=a1b2c3d4e5 ",
        "password=password=password= ",
        "pwd=1pwd=1pwd=1pwd=1pwd=1pwd=1pwd=1pwd=1pwd=1pwd=1pwd=1pwd=1 ",
        "https://u:a1b2c3d4@x ",
        "xoxb-",
        "glpat-",
        "sk-ant-",
        "ghp_",
        "eyJ.",
        "bearer ",
        "authorization: basic ",
        "://a:b1@",
        &format!("{names} "),
    ] {
        let text = piece.repeat((1 << 18) / piece.len());
        let done = work(&text);
        assert!(done <= 5 * text.len(), "{piece}: {done}");
    }
}

#[test]
fn a_block_without_an_end_is_taken_out_as_far_as_it_may_reach() {
    let text = format!("a -----BEGIN PRIVATE KEY-----\n{}", random(100));
    assert_eq!(redact(None, &text).unwrap(), "a [redacted: private key]");
    let text = format!("-----BEGIN PRIVATE KEY-----{}é", "é".repeat(100_000));
    assert!(redact(None, &text).unwrap().starts_with("[redacted: private key]é"));
}

#[test]
fn the_largest_text_is_searched_in_one_go() {
    for piece in [
        "sk-", "sk-ant-", "eyJ", "eyJ.", "password=", "password=a1", "://a:", "://a:b1@",
        "bearer ", "-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "AKIA", "xoxb-", "ghp_",
        "hooks.slack.com/services/", "api_key\" \" \" \" ", "é",
    ] {
        let text = piece.repeat((1 << 20) / piece.len());
        find(None, &text);
    }
}

proptest! {
    #[test]
    fn what_is_found_lies_in_order_on_borders_of_characters(
        text in "(ghp_|sk-|eyJ|password|=|:|\"|://|@|-----BEGIN PRIVATE KEY-----|-----END |bearer |[a-z0-9A-Zé\\\\. ]{1,24}){0,12}"
    ) {
        let found = find(None, &text);
        let mut done = 0;
        for secret in &found {
            prop_assert!(secret.at.start >= done && secret.at.end > secret.at.start);
            prop_assert!(text.get(secret.at.clone()).is_some());
            done = secret.at.end;
        }
        prop_assert_eq!(redact(None, &text).is_some(), !found.is_empty());
    }
}
