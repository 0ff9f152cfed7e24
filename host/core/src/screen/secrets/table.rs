//! How credentials begin. Lengths and alphabets are those that their issuers publish or that
//! all known ones share; where an issuer reserves to change them, only the least is stated.

/// How the text behind a beginning has to go on to be a credential.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// The name of a credential: `=` or `:` and a value follow.
    Assigned,
    /// The name of an authentication scheme: a space and a token follow.
    Bearer,
    /// The first line of a block that ends with its own last line.
    Block,
    /// Three parts with dots between them, the first two of which are JSON in base64.
    Jwt,
    /// So many characters of an alphabet follow, in this case.
    Token {
        of: Alphabet,
        least: usize,
        most: usize,
        /// It begins like ordinary words do, so the rest has to look random.
        random: bool,
    },
    /// `://` of an address: a user, a colon, a password and an `@` follow.
    Url,
}

/// The characters that a token is made of.
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
}

impl Alphabet {
    pub(super) const fn has(self, byte: u8) -> bool {
        match self {
            Self::Capitals => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Letters => byte.is_ascii_alphanumeric(),
            Self::Words => byte.is_ascii_alphanumeric() || byte == b'_',
            Self::Dashed => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Self::Dotted => {
                byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/')
            }
        }
    }
}

/// One beginning.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) text: &'static str,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

const fn token(
    text: &'static str,
    name: &'static str,
    of: Alphabet,
    (least, most): (usize, usize),
) -> Beginning {
    Beginning { text, name, kind: Kind::Token { of, least, most, random: false } }
}

const fn random(
    text: &'static str,
    name: &'static str,
    of: Alphabet,
    (least, most): (usize, usize),
) -> Beginning {
    Beginning { text, name, kind: Kind::Token { of, least, most, random: true } }
}

const fn assigned(text: &'static str) -> Beginning {
    Beginning { text, name: "password or key", kind: Kind::Assigned }
}

/// No credential is longer.
const LONG: usize = 512;

use Alphabet::{Capitals, Dashed, Dotted, Letters, Words};

pub(super) const BEGINNINGS: &[Beginning] = &[
    token("AKIA", "AWS access key id", Capitals, (16, 16)),
    token("ASIA", "AWS access key id", Capitals, (16, 16)),
    token("ghp_", "GitHub token", Letters, (36, 255)),
    token("gho_", "GitHub token", Letters, (36, 255)),
    token("ghu_", "GitHub token", Letters, (36, 255)),
    token("ghs_", "GitHub token", Letters, (36, 255)),
    token("ghr_", "GitHub token", Letters, (36, 255)),
    token("github_pat_", "GitHub token", Words, (60, 255)),
    token("glpat-", "GitLab token", Dashed, (20, 255)),
    token("xoxb-", "Slack token", Dashed, (20, LONG)),
    token("xoxp-", "Slack token", Dashed, (20, LONG)),
    token("xoxa-", "Slack token", Dashed, (20, LONG)),
    token("xoxr-", "Slack token", Dashed, (20, LONG)),
    token("xoxs-", "Slack token", Dashed, (20, LONG)),
    token("xapp-", "Slack token", Dashed, (20, LONG)),
    token("hooks.slack.com/services/", "Slack webhook", Dotted, (30, 255)),
    token("AIza", "Google API key", Dashed, (35, 35)),
    token("ya29.", "Google access token", Dashed, (20, LONG)),
    token("GOCSPX-", "Google client secret", Dashed, (24, 64)),
    token("sk_live_", "Stripe key", Letters, (16, 255)),
    token("rk_live_", "Stripe key", Letters, (16, 255)),
    token("whsec_", "webhook secret", Letters, (24, 255)),
    token("sk-ant-", "model provider key", Dashed, (20, LONG)),
    token("sk-proj-", "model provider key", Dashed, (20, LONG)),
    random("sk-", "model provider key", Letters, (32, LONG)),
    random("gsk_", "model provider key", Letters, (40, 255)),
    random("hf_", "model hub token", Letters, (30, 255)),
    random("npm_", "package token", Letters, (36, 36)),
    token("dop_v1_", "cloud token", Letters, (64, 64)),
    random("SG.", "mail service key", Dotted, (60, 80)),
    token("shpat_", "shop token", Letters, (32, 32)),
    token("AGE-SECRET-KEY-1", "private key", Capitals, (58, 58)),
    Beginning { text: "-----BEGIN ", name: "private key", kind: Kind::Block },
    Beginning { text: "eyJ", name: "signed token", kind: Kind::Jwt },
    Beginning { text: "bearer ", name: "bearer token", kind: Kind::Bearer },
    Beginning { text: "://", name: "password in an address", kind: Kind::Url },
    assigned("password"),
    assigned("passwd"),
    assigned("passphrase"),
    assigned("pwd"),
    assigned("secret"),
    assigned("secret_key"),
    assigned("secretkey"),
    assigned("secret_access_key"),
    assigned("secretaccesskey"),
    assigned("api_key"),
    assigned("api-key"),
    assigned("apikey"),
    assigned("access_token"),
    assigned("accesstoken"),
    assigned("auth_token"),
    assigned("authtoken"),
    assigned("private_key"),
    assigned("privatekey"),
    assigned("account_key"),
    assigned("accountkey"),
];
