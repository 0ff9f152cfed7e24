//! How much of what should be found is found, and how much else: a corpus, measured.
//!
//! A line of `tests/filters` is written with places to fill, such as `‹d4›` for four digits, so that
//! no file holds what a scanner of this tree would take for a secret; what fills them follows from
//! the line alone. In a positive one, `⟦…⟧` holds what is to be found, of the kind that names the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clawhost_core::reply::{Content, ToolReply};
use clawhost_core::screen::{Action, Boundary, Filter, Screens, Tokens, kinds_of};
use clawhost_tests::TestHost;
use regex::{Captures, Regex};
use serde_json::json;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/filters");
/// Texts that one line stands for.
const POSITIVES_A_LINE: usize = 5;
const NEGATIVES_A_LINE: usize = 10;
/// What is published may not get worse unnoticed: a kind that finds less than nine of ten, or of
/// whose findings more than one of twenty is none, does not do what its name says.
const RECALL_MIN: f64 = 0.9;
const PRECISION_MIN: f64 = 0.95;
/// The same, of all kinds together; some lines are there because they are missed.
const ALL_MIN: f64 = 0.96;

/// A place to fill that holds no other.
static PLACE: LazyLock<Regex> = LazyLock::new(|| Regex::new("‹([^‹›]*)›").unwrap());

/// A token under a telling name, or in an address, is found as what stands there.
const GENERAL: [&str; 2] = ["password or key", "password in an address"];

/// Fills places: a small generator (xorshift), begun with the text of its line.
struct Filler(u64);

impl Filler {
    fn new(line: &str, turn: usize) -> Self {
        let start = 0xcbf2_9ce4_8422_2325_u64 ^ turn as u64;
        let mix = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(line.bytes().fold(start, mix) | 1)
    }

    fn below(&mut self, many: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % many
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }

    fn of(&mut self, alphabet: &str, many: usize) -> String {
        let letters: Vec<char> = alphabet.chars().collect();
        (0..many).map(|_| *self.one_of(&letters)).collect()
    }

    fn word(&mut self, words: &str) -> String {
        let words: Vec<&str> = words.split(' ').collect();
        (*self.one_of(&words)).to_owned()
    }

    fn line(&mut self, line: &str) -> String {
        let mut line = line.replace("\\n", "\n");
        while PLACE.is_match(&line) {
            line = PLACE.replace(&line, |found: &Captures<'_>| self.fill(&found[1])).into_owned();
        }
        line
    }

    fn fill(&mut self, place: &str) -> String {
        if let Some(text) = place.strip_prefix("b64|") {
            return STANDARD.encode(text);
        }
        let (name, rest) = place.split_once(':').unwrap_or((place, ""));
        match name {
            "area" => format!("{}{}", 2 + self.below(7), self.of("0123456789", 2)),
            "date" => format!("{}-0{}-1{}", 2000 + self.below(30), 1 + self.below(9), self.below(10)),
            "iban" | "ibansp" => self.iban(rest, name == "ibansp"),
            "luhn15" => self.card(rest, 15),
            "luhn16" => self.card(rest, 16),
            "card4" => grouped(&self.card(rest, 16), " "),
            "carddash" => grouped(&self.card(rest, 16), "-"),
            "n" => self.below(256).to_string(),
            "name" => self.word("ann bob carla dmitri elif farid grace hugo ines jonas kim lena"),
            "port" => (1024 + self.below(60_000)).to_string(),
            "pub" => self.public_address(),
            "s" => self.below(21).to_string(),
            "s1" => (1 + self.below(9)).to_string(),
            "ssn" => self.ssn("-"),
            "ssn9" => self.ssn(""),
            "time" => format!("1{}:{}{}:0{}", self.below(10), self.below(6), self.below(10), self.below(10)),
            "uuid" => [8, 4, 4, 4, 12].map(|many| self.of(HEX, many)).join("-"),
            "w" => self.word(
                "alpha harbour orchid copper lantern meadow quartz ribbon saddle timber velvet willow",
            ),
            "year" => (1990 + self.below(40)).to_string(),
            _ => self.letters(name),
        }
    }

    fn letters(&mut self, place: &str) -> String {
        let (kind, many) = place.split_at(1);
        let alphabet = match kind {
            "a" => "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
            "d" => "0123456789",
            "h" => HEX,
            "u" => "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
            _ => panic!("no such place: {place}"),
        };
        self.of(alphabet, many.parse().unwrap())
    }

    fn card(&mut self, first: &str, digits: usize) -> String {
        let body = format!("{first}{}", self.of("0123456789", digits - 1 - first.len()));
        let passes = |last: &u32| luhn(&format!("{body}{last}"));
        format!("{body}{}", (0..10).find(passes).unwrap())
    }

    fn iban(&mut self, of: &str, spaced: bool) -> String {
        let (country, many) = of.split_once(':').unwrap();
        let body = self.of("0123456789", many.parse().unwrap());
        let rest = remainder(&format!("{body}{country}00"));
        let account = format!("{country}{:02}{body}", 98 - rest);
        if spaced { grouped(&account, " ") } else { account }
    }

    fn ssn(&mut self, gap: &str) -> String {
        let (area, group, serial) =
            (1 + self.below(665), 1 + self.below(99), 1 + self.below(9_999));
        format!("{area:03}{gap}{group:02}{gap}{serial:04}")
    }

    fn public_address(&mut self) -> String {
        let first = *self.one_of(&[62, 81, 93, 142, 155, 178, 195, 203]);
        format!("{first}.{}.{}.{}", self.below(256), 64 + self.below(190), 1 + self.below(254))
    }
}

const HEX: &str = "0123456789abcdef";

fn grouped(text: &str, gap: &str) -> String {
    let groups: Vec<&str> =
        text.as_bytes().chunks(4).map(|four| str::from_utf8(four).unwrap()).collect();
    groups.join(gap)
}

fn luhn(digits: &str) -> bool {
    let twice = |digit: u32| digit * 2 / 10 + digit * 2 % 10;
    let value = |(at, c): (usize, char)| {
        let digit = c.to_digit(10).unwrap();
        if at % 2 == 1 { twice(digit) } else { digit }
    };
    digits.chars().rev().enumerate().map(value).sum::<u32>() % 10 == 0
}

fn remainder(account: &str) -> u32 {
    let digits = account.chars().map(|c| c.to_digit(36).unwrap().to_string()).collect::<String>();
    digits.chars().fold(0, |sum, c| (sum * 10 + c.to_digit(10).unwrap()) % 97)
}

/// Every text that the lines of a folder stand for, each once, by the file's name.
fn texts(folder: &str, each: usize) -> Vec<(String, String)> {
    let files = std::fs::read_dir(format!("{FOLDER}/{folder}")).unwrap();
    let mut texts = BTreeSet::new();
    for file in files.map(|file| file.unwrap().path()) {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        for line in std::fs::read_to_string(&file).unwrap().lines() {
            let filled = (0..each).map(|turn| Filler::new(line, turn).line(line));
            texts.extend(filled.map(|text| (name.clone(), text)));
        }
    }
    texts.into_iter().collect()
}

fn screens() -> Screens {
    let kinds = ["secrets", "pii", "internal"].iter().flat_map(|word| kinds_of(word)).collect();
    let mut screens = Screens::default();
    let boundaries = vec![Boundary::Result];
    screens.add_filter("all", &Filter { kinds, boundaries, action: Action::Redact });
    screens
}

fn shown(screens: &Screens, text: &str) -> String {
    let reply = ToolReply { content: vec![Content::Text(text.to_owned())], ..ToolReply::default() };
    match screens.output(reply, &Tokens::default()).value.content.remove(0) {
        Content::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

/// What became of the texts of one kind.
#[derive(Default)]
struct Score {
    texts: usize,
    found: usize,
    false_alarms: usize,
}

impl Score {
    fn recall(&self) -> f64 {
        self.found as f64 / self.texts as f64
    }

    fn precision(&self) -> f64 {
        self.found as f64 / (self.found + self.false_alarms) as f64
    }
}

fn alarms<'t>(text: &'t str, marker: &Regex) -> Vec<&'t str> {
    marker.captures_iter(text).map(|found| found.get(1).unwrap().as_str()).collect()
}

#[test]
fn what_should_be_found_is_found_and_little_else() {
    let (screens, marker) = (screens(), Regex::new(r"\[redacted: ([^\]]+)\]").unwrap());
    let mut scores = BTreeMap::<String, Score>::new();
    let mut wrong = String::new();
    let positives = texts("positive", POSITIVES_A_LINE);
    for (word, text) in &positives {
        let kind = kinds_of(word).first().copied().unwrap_or_else(|| panic!("no kind {word}"));
        let (before, rest) = text.split_once('⟦').unwrap();
        let (_, after) = rest.split_once('⟧').unwrap();
        let shown = shown(&screens, &text.replace(['⟦', '⟧'], ""));
        let as_kind = |kind: &str| format!("{before}[redacted: {kind}]{after}");
        let also = GENERAL.iter().filter(|_| kinds_of("secrets").contains(&kind));
        let is_found = also.chain([&kind]).any(|kind| shown == as_kind(kind));
        let score = scores.entry(kind.to_owned()).or_default();
        score.texts += 1;
        score.found += usize::from(is_found);
        if !is_found {
            writeln!(wrong, "missed {kind}: {text:?} → {shown:?}").unwrap();
            for other in alarms(&shown, &marker).into_iter().filter(|other| *other != kind) {
                scores.entry(other.to_owned()).or_default().false_alarms += 1;
            }
        }
    }
    let negatives = texts("negative", NEGATIVES_A_LINE);
    for (_, text) in &negatives {
        let shown = shown(&screens, text);
        for kind in alarms(&shown, &marker) {
            writeln!(wrong, "false {kind}: {text:?}").unwrap();
            scores.entry(kind.to_owned()).or_default().false_alarms += 1;
        }
    }
    let table = table(&scores, negatives.len());
    assert!(positives.len() >= 500 && negatives.len() >= 2_000, "{table}");
    for (kind, score) in &scores {
        let is_good = score.recall() >= RECALL_MIN && score.precision() >= PRECISION_MIN;
        assert!(is_good, "{kind}\n{wrong}\n{table}");
    }
    let all = all(&scores);
    assert!(all.recall() >= ALL_MIN && all.precision() >= ALL_MIN, "{wrong}\n{table}");
    published(&table, &wrong);
}

fn all(scores: &BTreeMap<String, Score>) -> Score {
    let mut all = Score::default();
    for Score { texts, found, false_alarms } in scores.values() {
        all.texts += texts;
        all.found += found;
        all.false_alarms += false_alarms;
    }
    all
}

fn table(scores: &BTreeMap<String, Score>, negatives: usize) -> String {
    let mut table =
        "| Kind | Texts | Found | False alarms | Recall | Precision |\n|---|---|---|---|---|---|\n"
            .to_owned();
    let all = all(scores);
    let rows = scores.iter().map(|(kind, score)| (kind.as_str(), score));
    for (kind, score) in rows.chain([("**all**", &all)]) {
        let Score { texts, found, false_alarms } = score;
        let (recall, precision) = (100.0 * score.recall(), 100.0 * score.precision());
        writeln!(
            table,
            "| {kind} | {texts} | {found} | {false_alarms} | {recall:.1} % | {precision:.1} % |"
        )
        .unwrap();
    }
    writeln!(table, "\nFalse alarms are those in {negatives} texts that hold nothing, and other kinds in the texts above.").unwrap();
    table
}

/// The page says what was measured. `INSTA_UPDATE=always` writes it anew.
fn published(table: &str, wrong: &str) {
    let path = format!("{FOLDER}/README.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (text, old) = page.split_once("<!-- measured -->\n").unwrap();
    if std::env::var_os("INSTA_UPDATE").is_some_and(|value| value == "always") {
        std::fs::write(&path, format!("{text}<!-- measured -->\n{table}")).unwrap();
    } else {
        assert_eq!(old, table, "the measured table changed; wrong now:\n{wrong}");
    }
}

#[tokio::test]
async fn filters_of_the_runtime_file_hold_on_the_path() {
    let policy = "claw: '0.3.0'\nkind: Policy\nmetadata: {name: p}\nspec:\n  rules: [{id: all, action: allow, scope: all}]\n  audit: {log_inputs: true}\n";
    let filters = "version: 1\nfilters:\n  people: {kinds: [pii], boundaries: [result, record], action: redact}\n  inside: {kinds: [internal], boundaries: [arguments], action: block}\n";
    let host = TestHost::builder()
        .file("a.txt", "ann@corp.test is at 10.1.2.3")
        .document("policy.yaml", policy)
        .runtime_file(filters)
        .build()
        .await;
    let reply = host.ask("read_file", json!({"path": "a.txt"})).await;
    assert_eq!(reply["content"], "[redacted: email] is at 10.1.2.3");
    host.ask("write_file", json!({"path": "b.txt", "content": "ann@corp.test"})).await;
    let written = std::fs::read_to_string(host.workspace().join("b.txt")).unwrap();
    let record = host.finished().pop().unwrap().to_string();
    assert_eq!(written, "ann@corp.test", "a tool gets what the caller sent");
    assert!(record.contains("[redacted: email]") && !record.contains("ann@"), "{record}");
    let inside = json!({"path": "c.txt", "content": "http://10.1.2.3/"});
    let error = host.call("write_file", inside).await.unwrap_err();
    assert_eq!((error.kind.code(), error.data["policy"].as_str()), (-32011, Some("inside")));
    let missing = json!({"path": "ann@corp.test"});
    let error = host.call("read_file", missing).await;
    assert!(!format!("{error:?}").contains("ann@"), "{error:?}");
    assert!(!host.finished().pop().unwrap().to_string().contains("ann@"));
}
