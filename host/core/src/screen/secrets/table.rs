//! How credentials begin. Lengths and alphabets are those that their issuers publish or that
//! all known ones share; where an issuer reserves to change them, only the least is stated.

/// How the text behind a beginning has to go on to be a credential.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// The name of a credential: `=` or `:` and a value follow.
    Assigned {
        /// Much else has such a name, so it has to stand alone, and the value to look random.
        strict: bool,
    },
    /// A header up to its scheme: a user and a password in base64 follow.
    Basic,
    /// The name of an authentication scheme: a space and a token follow.
    Bearer,
    /// The first line of a block that ends with its own last line.
    Block,
    /// Three parts with dots between them, the first two of which are JSON in base64.
    Jwt,
    /// So many characters of an alphabet follow, in this case.
    Token(Token),
    /// `://` of an address: a user, a colon, a password and an `@` follow, or a token and an `@`.
    Url,
}

/// How a token goes on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub(super) of: Alphabet,
    pub(super) least: usize,
    pub(super) most: usize,
    /// It begins like ordinary words do, so the rest has to look random.
    pub(super) random: bool,
    /// It begins as words can go on, so it is none in the middle of one.
    pub(super) alone: bool,
}

/// The characters that a token is made of.
#[repr(usize)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alphabet {
    /// `A-Z 0-9`.
    Capitals,
    /// `A-Z a-z 0-9`.
    Letters,
    /// `A-Z a-z 0-9 _`.
    Words,
    /// `A-Z a-z 0-9 _ -`.
    Dashed,
    /// `A-Z a-z 0-9 _ - . /`.
    Dotted,
    /// `A-Z a-z 0-9 _ - .`.
    Jwt,
    /// `A-Z a-z 0-9 _ - . / + = ~`.
    Bearer,
    /// Of an address, what stands before its path.
    Authority,
    /// Anything that does not end a value between quotes, where what is in braces is put in later.
    Quoted,
    /// Anything that does not end a value.
    Value,
}

impl Alphabet {
    /// How many there are.
    pub(super) const COUNT: usize = Self::Value as usize + 1;

    pub(super) fn has(self, byte: u8) -> bool {
        match self {
            Self::Capitals => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Letters => byte.is_ascii_alphanumeric(),
            Self::Words => byte.is_ascii_alphanumeric() || byte == b'_',
            Self::Dashed => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Self::Dotted => Self::Jwt.has(byte) || byte == b'/',
            Self::Jwt => Self::Dashed.has(byte) || byte == b'.',
            Self::Bearer => Self::Dotted.has(byte) || matches!(byte, b'+' | b'=' | b'~'),
            Self::Authority => byte.is_ascii_graphic() && !b"/?#\"'<>\\`".contains(&byte),
            Self::Quoted => !byte.is_ascii_whitespace() && !b"\"'`\\<>{}".contains(&byte),
            Self::Value => Self::Quoted.has(byte) && !b",;()[]&".contains(&byte),
        }
    }
}

/// One way to begin, in any of its spellings.
#[derive(Debug)]
pub(super) struct Beginning {
    /// What it begins with: alternatives with `|` between them.
    pub(super) texts: &'static str,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

const fn row(texts: &'static str, name: &'static str, kind: Kind) -> Beginning {
    Beginning { texts, name, kind }
}

const fn token(of: Alphabet, least: usize, most: usize) -> Kind {
    Kind::Token(Token { of, least, most, random: false, alone: true })
}

/// A beginning that no word holds.
const fn marked(of: Alphabet, least: usize, most: usize) -> Kind {
    Kind::Token(Token { of, least, most, random: false, alone: false })
}

const fn random(of: Alphabet, least: usize, most: usize) -> Kind {
    Kind::Token(Token { of, least, most, random: true, alone: true })
}

/// No credential is longer.
const LONG: usize = 512;

use Alphabet::{Capitals, Dashed, Dotted, Letters, Words};

pub(super) const BEGINNINGS: &[Beginning] = &[
    row("AKIA|ASIA", "AWS access key id", token(Capitals, 16, 16)),
    row("ghp_|gho_|ghu_|ghs_|ghr_", "GitHub token", marked(Letters, 36, 255)),
    row("github_pat_", "GitHub token", marked(Words, 60, 255)),
    row("glpat-", "GitLab token", marked(Dashed, 20, 255)),
    row("xoxb-|xoxp-|xoxa-|xoxr-|xoxs-|xapp-", "Slack token", marked(Dashed, 20, LONG)),
    row("hooks.slack.com/services/", "Slack webhook", marked(Dotted, 30, 255)),
    row("AIza", "Google API key", token(Dashed, 35, 35)),
    row("ya29.", "Google access token", token(Dashed, 20, LONG)),
    row("GOCSPX-", "Google client secret", marked(Dashed, 24, 64)),
    row("sk_live_|rk_live_", "Stripe key", marked(Letters, 16, 255)),
    row("whsec_", "webhook secret", marked(Letters, 24, 255)),
    row("sk-ant-|sk-proj-|sk-svcacct-|sk-or-v1-", "model provider key", token(Dashed, 20, LONG)),
    row("sk-", "model provider key", random(Letters, 32, LONG)),
    row("gsk_|xai-|pplx-|r8_", "model provider key", random(Letters, 37, 255)),
    row("hf_", "model hub token", random(Letters, 30, 255)),
    row("npm_", "package token", random(Letters, 36, 36)),
    row("pypi-AgEIcHlwaS5vcmc", "package token", marked(Dashed, 50, LONG)),
    row("rubygems_", "package token", token(Letters, 48, 48)),
    row("dckr_pat_|dckr_oat_", "package token", marked(Dashed, 24, 64)),
    row("dop_v1_", "cloud token", marked(Letters, 64, 64)),
    row("hvs.|hvb.", "vault token", random(Dashed, 24, LONG)),
    row("glsa_|glc_", "monitoring key", random(Words, 32, LONG)),
    row("NRAK-", "monitoring key", token(Capitals, 27, 27)),
    row("sntrys_", "monitoring key", token(Dashed, 40, LONG)),
    row("lin_api_", "tracker key", marked(Letters, 40, 48)),
    row("ntn_", "tracker key", random(Letters, 40, 64)),
    row("ATATT3x", "tracker key", token(Dashed, 100, LONG)),
    row("figd_", "design tool token", random(Dashed, 40, 64)),
    row("pscale_tkn_|pscale_pw_", "database token", marked(Dashed, 32, 64)),
    row("sbp_", "database token", random(Letters, 40, 40)),
    row("SG.", "mail service key", random(Dotted, 60, 80)),
    row("shpat_", "shop token", marked(Letters, 32, 32)),
    row("AGE-SECRET-KEY-1", "private key", token(Capitals, 58, 58)),
    row("-----BEGIN ", "private key", Kind::Block),
    row("eyJ", "signed token", Kind::Jwt),
    row("bearer ", "bearer token", Kind::Bearer),
    row("://", "password in an address", Kind::Url),
    row(
        "password|passwd|passphrase|pwd|secret|secret_key|secretkey|secret_access_key|\
         secretaccesskey|api_key|api-key|apikey|access_token|accesstoken|auth_token|authtoken|\
         private_key|privatekey|account_key|accountkey|_pass",
        "password or key",
        Kind::Assigned { strict: false },
    ),
    row("token", "password or key", Kind::Assigned { strict: true }),
    row(
        "authorization: basic |authorization=basic |authorization\": \"basic |\
         authorization\":\"basic ",
        "password in a header",
        Kind::Basic,
    ),
];
