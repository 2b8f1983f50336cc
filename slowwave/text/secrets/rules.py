"""What a secret looks like: issuers' tokens, private keys, passwords in URLs, and values assigned to telling names.

The tokens follow the prefixes and lengths that their issuers publish. High entropy alone is not a sign: on transcripts
nearly all that it finds are hashes, ids and paths.
"""

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase, digits

from slowwave.text.secrets.issuers import FORMED, ISSUED

MARK = "[redacted:"


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of secret: the pattern's group `secret`, or all it matches, is replaced if `holds` agrees."""

    name: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...]
    """The rule can't match a text that has none of them."""
    holds: Callable[[re.Match[str]], bool] = lambda match: True


_HEX = "[0-9A-Fa-f]"
# How a terminal's code for colours may end.
_ESCAPES = (
    *(r"\\[abefnrtv0]", rf"\\x{_HEX}{{2}}", rf"\\u{_HEX}{{4}}", rf"%{_HEX}{{2}}"),
    *(
        r"\[[mKJH]",
        *(rf"[\[;?]\d{{{n}}}[A-Za-z]" for n in (1, 2, 3)),
    ),
)
AFTER = "(?![A-Za-z0-9])"
"""A token is followed by neither a letter nor a digit."""


def build_boundary_pattern(start: str = "") -> str:
    """Return the pattern of what may stand before a token, put after its first letters `start`.

    Anything but a letter or digit of the same word: the `n` of `\\n`, the `20` of `%20` and the `m` of a colour's code
    are none. A look-behind has one width, hence one for each.
    """
    return (
        "|".join(
            (
                f"(?:(?<![A-Za-z0-9]{start})",
                *(f"(?<={escape}{start})" for escape in _ESCAPES),
            )
        )
        + ")"
    )


def make_token_rule(name: str, *prefixes: str, tail: str) -> Rule:
    """Return an issuer's token: one of its prefixes, then its tail, with no letter or digit around them."""
    starts = "|".join(map(re.escape, prefixes))
    return Rule(
        name=name,
        pattern=re.compile(
            rf"(?={starts}){build_boundary_pattern()}(?:{starts}){tail}{AFTER}"
        ),
        hints=prefixes,
        holds=_is_no_example,
    )


def _is_no_example(match: re.Match[str]) -> bool:
    """Return False for a token of documentation, such as AWS's `AKIA…EXAMPLE`."""
    return not match[0].endswith("EXAMPLE")


def make_whole_rule(name: str, whole: str, *hints: str) -> Rule:
    """Return a token known by a pattern of the whole, with no letter or digit around it (a hash, a base64 blob)."""
    return Rule(
        name,
        re.compile(rf"(?={whole}){build_boundary_pattern()}(?:{whole}){AFTER}"),
        hints,
    )


_WORDS = frozenset(
    [
        "password",
        "passwd",
        "pass",
        "passphrase",
        "secret",
        "secrets",
        "token",
        "string",
        "required",
        "optional",
        "changeme",
        "undefined",
        "disabled",
        "enabled",
        "example",
        "placeholder",
        "default",
        "unknown",
        "redacted",
        "hidden",
        "masked",
        "number",
        "boolean",
        "object",
        "encrypted",
        "plaintext",
        "username",
        "none",
        "null",
    ]
)
"""Words that code and schemas put where a password goes. The scorer does not judge a word without a figure."""
_TEMPLATE = re.compile(
    r"<.*>\Z|\$[A-Za-z_(][\w)]*\Z|%\w+%?\Z|.*(?:\$\{|\{\{|\{[A-Za-z_][\w.]*\}|\.\.\.|…|\*{3}|[xX]{4})"
    r"|(?i:your|my|insert|enter|replace|change|dummy|fake|test|example)(?:[A-Za-z_-]*|(?:[_-][A-Za-z]+)+[_-]?[0-9]{1,3})\Z"
    r"|.*EXAMPLE"
)


def is_placeholder(value: str) -> bool:
    """Return True if a value stands for another: `<password>`, `${VAR}`, `your-key-1`, `xxxx`, `***`, `…EXAMPLE`,
    `string`.
    """
    return (
        MARK in value
        or value.lower() in _WORDS
        or len(set(value)) < 3
        or _TEMPLATE.match(value) is not None
    )


def _is_filled_in(match: re.Match[str]) -> bool:
    return not is_placeholder(match["secret"])


_FIGURE = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")


def _is_mixed(match: re.Match[str]) -> bool:
    """Return True if the match mixes figures and letters, as a word or a number never does."""
    return _is_mixed_text(match[0])


def _is_mixed_text(text: str) -> bool:
    return bool(_FIGURE.search(text) and _LETTER.search(text))


def _is_private_key(match: re.Match[str]) -> bool:
    """Return True for a whole key, and for lines of base64 that the end of a key follows."""
    return match["lines"] is None or match["end"] is not None


def _is_credential(match: re.Match[str]) -> bool:
    return not is_placeholder(match["secret"]) and any(
        map(str.isdigit, match["secret"])
    )


# --- secrets with a form of their own ------------------------------------------------------------------------------

# A key of which the end or the start is cut off: the lines of base64 there are.
_PRIVATE_KEY = re.compile(
    r"(?<![A-Za-z0-9+/=])(?P<lines>(?:[A-Za-z0-9+/=]{16,128}(?:\s|\\+[nr])+)++)"
    r"(?P<end>-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----)?"
    r"|-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:"
    r"(?:(?!-----(?:BEGIN|END) )[\s\S]){32,20000}?-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:(?:\s|\\+[nr])*[A-Za-z0-9+/=]{16,})+)"
    r"|PuTTY-User-Key-File-\d:(?:(?!PuTTY-User-Key-File)[\s\S]){32,20000}?Private-MAC: [0-9a-f]+"
)
_QUOTE = r"\\{0,7}[\"'`]"
"""As it is, or escaped: JSON inside of JSON inside of JSON has three backslashes before its quotes."""
_S = r"\\?/"
"""A slash, as some escape it in JSON too."""
_BEARER = re.compile(
    rf"(?i:bearer{build_boundary_pattern('bearer')}(?:[ \t]|%20)+"
    rf"|\bauthorization(?:{_QUOTE})?[ \t]*[:=][ \t]*(?:{_QUOTE})?(?:basic|(?:api-?)?token)(?:[ \t]|%20)+)"
    r"(?P<secret>[A-Za-z0-9._~+/=-]{12,})"
)
_URL_PASSWORD = re.compile(
    rf":{_S}{_S}(?:[^\s:/@'\"`<>(\[]{{0,64}}|\[redacted:[a-z-]+\]):(?!x-oauth-basic@)(?P<secret>[^\s/'\"`<>]+)@"
)
_URL_USER = re.compile(rf":{_S}{_S}(?P<secret>[^\s:/@'\"`<>(\[]+):x-oauth-basic@")
_CURL_USER = re.compile(
    r"\bcurl\b(?:[^\n]|\\\n){0,400}?[ \t](?:-u|--user)[ \t=]{0,5}[\"']?"
    r"[^\s:\"'@/\[]{0,64}:(?P<secret>[^\s\"'`\[]{3,200})"
)
_COMMAND = re.compile(
    r"\b(?:redis-cli|sshpass|mongo\w{0,20}|ldap\w{1,20}|docker login|openssl)\b[^\n|;&]{0,200}?[ \t]"
    r"(?:-[apwk]|-pass(?:in|out)?)[ \t]{1,3}(?:pass:)?[\"']?(?P<secret>(?!pass:)[^\s\"'`\[-][^\s\"'`\[]{2,200})"
)
_MYSQL = re.compile(
    r"\b(?:mysql|mariadb)\w{0,20}(?=[ \t])[^\n|;&]{0,200}?[ \t]-p(?![ \t])[\"']?(?P<secret>[^\s\"'`\[]{3,200})"
)
_NETRC = re.compile(
    r"\bmachine\s{1,9}\S{1,255}\s{1,9}login\s{1,9}\S{1,255}\s{1,9}password\s{1,9}(?P<secret>\S{3,255})"
)
_PGPASS = re.compile(
    r"(?m)^[\w.*-]{1,255}:5432:[\w*-]{1,63}:[\w.*-]{1,63}:(?P<secret>[^\s:]{3,255})$"
)
_JWT = re.compile(
    rf"ey{build_boundary_pattern('ey')}[A-Za-z0-9_-]{{9,1000}}\.ey[A-Za-z0-9_-]{{9,}}(?:\.[A-Za-z0-9_-]*)?"
)
_TELEGRAM = re.compile(
    rf"{build_boundary_pattern()}(?:bot)?(?P<secret>\d{{8,10}}:AA[A-Za-z0-9_-]{{33}}){AFTER}"
)
_SLACK_HOOK = re.compile(
    rf"https:{_S}{_S}hooks\.slack\.com{_S}"
    rf"(?:services{_S}T\w+{_S}B\w+{_S}\w+|(?:workflows|triggers){_S}[TE]\w+{_S}\w+(?:{_S}\w+){{1,2}})",
    re.ASCII,
)
_GITLAB = (
    f"gl{prefix}-"
    for prefix in (
        "pat",
        "dt",
        "ft",
        "soat",
        "rt",
        "cbt",
        "ptt",
        "imt",
        "agent",
        "oas",
        "ffct",
    )
)
_DISCORD = r"[MNO][A-Za-z\d_-]{23,25}\.[A-Za-z\d_-]{6}\.[A-Za-z\d_-]{27}"
_DISCORD_HOOK = re.compile(
    rf"https:{_S}{_S}[\w.]{{0,20}}discord(?:app)?\.com{_S}api{_S}webhooks{_S}\d+{_S}[\w-]{{40,}}"
)
_SEED = re.compile(
    r"(?i:seed|mnemonic|recovery)[^\n.]{0,40}?[:\s\"'](?P<secret>(?:[a-z]{3,8} ){11,23}[a-z]{3,8})\b"
)
_ALNUM = "[A-Za-z0-9]"
_WORD = "[A-Za-z0-9_-]"

_SIGNS = "!#$%&*?^"
_ANY = f"[A-Za-z0-9{_SIGNS}@]*"
_MADE = re.compile(
    rf"(?<![^\s\"'`(:=/])(?=[A-Za-z0-9@]+[{_SIGNS}])(?={_ANY}[a-z])(?={_ANY}[A-Z])(?={_ANY}\d)"
    rf"(?!{_ANY}%[0-9A-Fa-f]{{2}}|[A-Za-z]+[{_SIGNS}]\d+\b)[A-Za-z0-9{_SIGNS}@]{{8,40}}(?![^\s\"'`,.;:)])"
)
"""A password by its form: letters of both cases, figures and a sign within, which no word of prose or code has."""
_CARD = re.compile(
    r"(?<![\w.-])(?:(?:4\d{3}|5[1-5]\d{2}|2[2-7]\d{2}|6011|65\d{2})(?P<gap>[ -]?)\d{4}(?P=gap)\d{4}(?P=gap)\d{4}"
    r"|3[47]\d{2}[ -]?\d{6}[ -]?\d{5})(?![\w-]|\.\d)"
)
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}\b")
_PIN = re.compile(
    r"\b(?:PIN\b[^\n\d]{0,20}?(?::|=| )|(?i:pin)(?: is| ist|:|=) ?)[ \t]?(?P<secret>\d{4,8})(?![\w-]|\.\w)"
)
_COOKIE = re.compile(
    r"(?i)cookie(?:\\{0,7}[\"'])?(?:[ \t]{0,9}[:=][ \t]{0,9}|[ \t])\\{0,7}[\"']?"
    r"(?P<secret>(?:[\w.-]{1,64}=[^\s;\"'\\]{0,11};[ \t]?){0,20}"
    r"[\w.-]{1,64}=(?=[^\s;\"'\\\d]{0,400}\d)[^\s;\"'\\]{12,4000}[^\n\"'\\]{0,4000})"
)
"""The pairs of a cookie's header from its first to the last, if one has a value that is made by a machine."""
_ONE = r"(?=[A-Za-z-]{0,12}\d)(?:[A-Za-z0-9]{8,16}|[A-Za-z0-9]{4,6}(?:-[A-Za-z0-9]{4,6}){1,3})\b"
_GAP = r"[\s,;*]{1,9}(?:\d{1,2}[.)] ?|- )?"
_CODES = re.compile(
    rf"(?i:codes)\b[^\n:]{{0,40}}:?{_GAP}(?P<secret>(?=(?P<first>\w\w)){_ONE}(?:{_GAP}(?!(?P=first)){_ONE}){{2,40}})"
)
"""A list of codes after its name: unlike those of goods or errors the next ones do not begin as the first does."""


def _is_card(match: re.Match[str]) -> bool:
    """Return True if the last digit is the check digit (Luhn, ISO/IEC 7812-1)."""
    figures = [int(figure) for figure in reversed(match[0]) if figure.isdigit()]
    return (
        sum(sum(divmod(figure * (1 + at % 2), 10)) for at, figure in enumerate(figures))
        % 10
        == 0
    )


def _is_iban(match: re.Match[str]) -> bool:
    """Return True if the number leaves 1 of 97 (ISO 13616)."""
    plain = match[0].replace(" ", "")
    return (
        int("".join(str(int(letter, 36)) for letter in plain[4:] + plain[:4])) % 97 == 1
    )


_CHECKED = re.compile(
    r"(?:gh[opusr]|npm)_(?P<word>(?:[A-Za-z0-9](?:\r?\n[ \t]*)?){36})"
)
"""A token of GitHub's or npm's wherever it stands, also glued to other words or wrapped by a terminal."""
_BASE62 = f"{digits}{ascii_uppercase}{ascii_lowercase}"


def _has_checksum(match: re.Match[str]) -> bool:
    """Return True if the last six letters are the CRC-32 of the others in base 62, as GitHub and npm publish it."""
    word = "".join(match["word"].split())
    left = zlib.crc32(word[:30].encode())
    checksum = ""
    while left:
        left, digit = divmod(left, 62)
        checksum = _BASE62[digit] + checksum
    return checksum.rjust(6, "0") == word[30:]


_COMMANDS = ("redis-cli", "sshpass", "mongo", "ldap", "docker login", "openssl")

ANYWHERE: tuple[Rule, ...] = (
    Rule("password", _MADE, tuple(_SIGNS)),
    Rule(name="card", pattern=_CARD, hints=tuple("23456"), holds=_is_card),
    Rule(name="iban", pattern=_IBAN, hints=tuple("0123456789"), holds=_is_iban),
    Rule("pin", _PIN, ("PIN", "Pin", "pin")),
)
"""Secrets by their form alone; the hints are looked for in the text as it is."""

KEYS: tuple[Rule, ...] = (
    Rule(
        name="private-key",
        pattern=_PRIVATE_KEY,
        hints=("private key", "putty-user-key"),
        holds=_is_private_key,
    ),
)
"""Secrets of many lines; the hints are looked for in the text in lower case."""

PHRASES: tuple[Rule, ...] = (
    Rule(
        name="authorization",
        pattern=_BEARER,
        hints=("bearer", "authorization"),
        holds=_is_credential,
    ),
    Rule(
        name="url-password",
        pattern=_URL_PASSWORD,
        hints=("://", r":\/\/"),
        holds=_is_filled_in,
    ),
    Rule(
        name="url-token",
        pattern=_URL_USER,
        hints=("x-oauth-basic",),
        holds=_is_filled_in,
    ),
    Rule(name="password", pattern=_CURL_USER, hints=("curl",), holds=_is_filled_in),
    Rule(name="password", pattern=_COMMAND, hints=_COMMANDS, holds=_is_filled_in),
    Rule(
        name="password", pattern=_MYSQL, hints=("mysql", "mariadb"), holds=_is_filled_in
    ),
    Rule("seed-phrase", _SEED, ("seed", "mnemonic", "recovery")),
    Rule("cookie", _COOKIE, ("cookie",)),
    Rule("codes", _CODES, ("codes",)),
    Rule(name="password", pattern=_NETRC, hints=("machine",), holds=_is_filled_in),
    Rule(name="password", pattern=_PGPASS, hints=(":5432:",), holds=_is_filled_in),
)
"""Secrets that may be short or stand among white space; the hints are looked for in the text in lower case."""

TOKENS: tuple[Rule, ...] = (
    Rule("jwt", _JWT, (".ey",)),
    Rule(
        name="issued-token",
        pattern=_CHECKED,
        hints=("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "npm_"),
        holds=_has_checksum,
    ),
    make_token_rule("anthropic-key", "sk-ant-", tail=_WORD + "{20,}"),
    make_token_rule("openrouter-key", "sk-or-", tail=_WORD + "{24,}"),
    make_token_rule(
        "openai-key", "sk-proj-", "sk-svcacct-", "sk-admin-", tail=_WORD + "{20,}"
    ),
    make_token_rule("openai-key", "sk-", tail=_ALNUM + "{32,}"),
    make_token_rule(
        "github-token",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
        tail="[A-Za-z0-9_]{36,}",
    ),
    make_token_rule(
        "gitlab-token",
        "GR1348941",
        *_GITLAB,
        tail=_WORD + r"{20,}(?:\.[0-9a-z]{2}\.[0-9a-z]{7,})?",
    ),
    make_token_rule("google-api-key", "AIza", tail=_WORD + "{35}"),
    make_token_rule("google-oauth", "ya29.", "GOCSPX-", tail=_WORD + "{20,}"),
    make_token_rule("huggingface-token", "hf_", "api_org_", tail=_ALNUM + "{30,}"),
    make_token_rule(
        "slack-token", "xapp-", "xoxc-", "xoxe-", "xoxe.", tail=_WORD + "{20,}"
    ),
    make_whole_rule("slack-token", r"(?i:xox[abpors]-(?:\d+-)+[a-z0-9]+)", "xox"),
    make_token_rule(
        "slack-token", "xoxd-", tail="(?:[A-Za-z0-9/+_-]|%2[BFbf]|%3[Dd]){20,}"
    ),
    Rule("slack-token", _SLACK_HOOK, ("hooks.slack.com",)),
    make_token_rule(
        "aws-access-key", "AKIA", "ASIA", "ABIA", "ACCA", tail="[0-9A-Z]{16}"
    ),
    make_token_rule("aws-access-key", "A3T", tail="[0-9A-Z]{17}"),
    make_token_rule("azure-storage-key", "AccountKey=", tail="[A-Za-z0-9+/=]{88}"),
    make_token_rule("npm-token", "npm_", tail=_ALNUM + "{36}"),
    make_whole_rule("mailchimp-key", "[0-9a-z]{32}-us[0-9]{1,2}", "-us"),
    make_whole_rule(
        "discord-token",
        _DISCORD,
        *["MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT"],
    ),
    Rule("discord-webhook", _DISCORD_HOOK, ("/api/webhooks", r"\/api\/webhooks")),
    Rule("telegram-token", _TELEGRAM, (":AA",)),
    make_token_rule(
        "digitalocean-token", "dop_v1_", "doo_v1_", "dor_v1_", tail="[a-f0-9]{64}"
    ),
    make_token_rule(
        "shopify-token", "shpat_", "shpca_", "shppa_", "shpss_", tail="[a-fA-F0-9]{32}"
    ),
    make_token_rule("databricks-token", "dapi", tail="[a-f0-9]{32}(?:-[0-9])?"),
    make_token_rule("groq-key", "gsk_", tail=_ALNUM + "{40,}"),
    make_token_rule("xai-key", "xai-", tail=_ALNUM + "{60,}"),
    make_token_rule("perplexity-key", "pplx-", tail=_ALNUM + "{40,}"),
    make_token_rule("replicate-token", "r8_", tail=_ALNUM + "{37}"),
    make_token_rule("linear-key", "lin_api_", tail=_ALNUM + "{32,}"),
    make_token_rule("notion-token", "ntn_", tail=_ALNUM + "{40,}"),
    make_token_rule("docker-token", "dckr_pat_", "dckr_oat_", tail=_WORD + "{20,}"),
    make_token_rule("vault-token", "hvs.", "hvb.", tail=_WORD + "{24,}"),
    make_token_rule("grafana-token", "glsa_", tail=_ALNUM + "{32}_[A-Fa-f0-9]{8}"),
    make_token_rule("grafana-token", "glc_", tail="[A-Za-z0-9+/=]{32,}"),
    make_token_rule("supabase-key", "sbp_", "sb_secret_", tail="[A-Za-z0-9_]{20,}"),
    make_token_rule("atlassian-token", "ATATT3", "ATCTT3", tail="[A-Za-z0-9_=-]{60,}"),
    make_token_rule("sentry-token", "sntrys_", "sntryu_", tail="[A-Za-z0-9_+/=]{40,}"),
    make_token_rule("figma-token", "figd_", tail=_WORD + "{36,}"),
    make_token_rule("age-key", "AGE-SECRET-KEY-1", tail="[A-Z0-9]{58}"),
    *(make_token_rule(name, *prefixes, tail=tail) for name, prefixes, tail in ISSUED),
    *(
        Rule(
            name=name,
            pattern=re.compile(rf"{build_boundary_pattern()}{whole}{AFTER}"),
            hints=marks,
            holds=_is_mixed,
        )
        for name, marks, whole in FORMED
    ),
)
"""Tokens of issuers; the hints are looked for in the text as it is."""

# --- values assigned to a telling name -----------------------------------------------------------------------------

CORE = re.compile("pass|pw|secret|key|token|credential|kennwort|contrase|clave|psk")
"""Finds where a telling name may begin, in text in lower case: each has one of them."""

_COLOUR = r"(?:\x1b\[[0-9;]*m){0,4}"
_SIGN = (
    rf"{_COLOUR}(?:{_QUOTE})?\]?[ \t]{{0,3}}"
    r"(?:(?::[ \t]?|[ \t])[A-Za-z_][\w.\[\] |]{0,30}?[ \t]?=|=>|"
    rf":{{1,3}}=|[?+.|]=|={{1,3}}|:){_COLOUR}[ \t]{{0,3}}{_COLOUR}"
)
_MARKUP = (
    rf"(?:{_QUOTE})?(?:>\s{{0,40}}(?=[^\s<]{{6,512}}\s{{0,40}}</)|:[ \t]?[|>][+-]?[ \t]{{0,3}}\n\s{{1,40}}"
    r"|,(?=[^\s,]{12,512},))"
)
"""An element's text, a YAML block, a column beside: the value then has to look made by a machine."""
_IS = (
    r"(?: (?:for|to|of|für|von|pour|du|para|del?) [^\n.:]{1,40}?)? (?i:is|was|ist|war|lautet|est|es|era|to|auf)"
    r"(?: (?:now|jetzt|(?:set|changed) to))?:? |(?: [^\W\d_]{2,15}){1,3}: "
)
NAMED = re.compile(
    r"(?P<name>(?i:passw(?:ord|d|ort)|pass(?:phrase|code|e)?|pwd?|secret|key|token|credentials?|kennwort"
    r"|contrase[nñ]a|clave|psk))"
    r"(?P<suffix>[_-][A-Za-z0-9_-]{0,24}|[0-9]{0,3})"
    rf"(?:(?P<markup>{_MARKUP})|{_SIGN}|(?P<said>{_IS})|(?P<option>[ ]))"
    rf"(?:[rbfuRBFU@]{{0,2}}(?P<quote>{_QUOTE})(?P<quoted>[^\"'`\s\\]{{4,512}})(?P=quote)"
    r"|(?P<bare>[^\s\"'`\\,;(){}\[\]<>|&\x1b]{6,512}+)(?![(\[{]))"
)
"""A telling name from its core on, what assigns (a sign, the word "is", a space after a --option), and the value."""

# What such a name ends in when its value isn't a secret: password_hash, token_count, secret_name, api_key_env, …
_ABOUT = re.compile(
    r"(?i)[_-](?:hash(?:ed)?|digest|checksum|sha\d*|count|len(?:gth)?|size|limit|names?|ids?|types?|file|path|ur[li]|env"
    r"|var|field|label|policy|usage|budget|index|expir\w*|ttl|version|prompt|hint|manager|store|arn|ref|at)\Z"
)
_KEY_OF = re.compile(
    r"(?i)(?:api|access|account|auth|client|private|service|signing|encryption|master|db|database|secret"
    r"|storage)[ _-]?\Z"
)
_OTHER_TOKEN = re.compile(
    r"(?i)(?:page|next|prev|cursor|continuation|sync|[ebc]os|pad|unk|mask|sep|cls|stop)[_-]?\Z"
)
_OF_ISSUER = re.compile(r"(?:[a-z0-9]|[A-Za-z0-9][_.-])\Z")
"""Somebody's token: a name runs into the word, as in `adobeToken`, `adobe_token`."""
_SAFE_TOKEN = re.compile(r"(?i)(?:auth|access|api|refresh|bot|bearer|secret)[_-]?\Z")
_OPTION = re.compile(r"(?:\A|.*\s)--?[A-Za-z0-9-]*\Z", re.DOTALL)
_CODE = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::|->|\?\.)[A-Za-z_]\w*)+\Z")
_DECLARED = re.compile(r":=\s*\Z")
_TERM = re.compile(r" (?:[+*%^]|<<) [\w(]")
_FORMULA = re.compile(r"-?[\w.]+(?:[-+*/%^]-?[\w.]+)*\Z")
FORMULA_CHARS = 30
"""Formulas without a space are shorter, most keys in base64 longer."""
CODE_CHARS = 60
"""Names of code are shorter."""
_PATH = re.compile(r"[/~]|\.{1,2}/|[A-Za-z]:\\|.*(?:://|\.[A-Za-z]{2,5}\Z)")
_HASH = re.compile(
    r"(?i)(?:sha\d+[-:])?(?:[0-9a-f]{7,128}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\Z"
)
_PASSWORD = re.compile(r"(?i)pass|pwd?|contrase|kennwort|clave|psk")
_PARTS = re.compile(r"[^\W\d_]{3,}(?:[-_][^\W\d_]{3,}){2,}[.,]?\Z")
"""Words in a row, as passphrases are made."""
_OF_VARIABLE = re.compile(r"(?<![A-Za-z0-9])[A-Z]{3,20}_\Z")
"""A variable of the environment: `HEROKU_KEY`."""
_AWS = re.compile(r"(?i)aws\w{0,30}\Z")


def classify_secret(before: str, match: re.Match[str]) -> str | None:
    """Return the kind of secret that a match of `NAMED` assigns (`before` is the text up to it); None if it isn't one.

    Whether the value stands for another is asked last: it takes longest, and most values are none by then.
    """
    kind = _classify_value(before, match)
    return (
        None
        if kind is None or is_placeholder(match["quoted"] or match["bare"])
        else kind
    )


def _classify_value(before: str, match: re.Match[str]) -> str | None:
    """Return the kind of secret that a match of `NAMED` assigns, or None; `before` is the text up to it."""
    if _ABOUT.search(match["suffix"]) or MARK in before.rpartition("]")[2]:
        return None
    if match["option"] and not _OPTION.match(before):
        return None  # prose: left to the scorer
    value = match["quoted"] or match["bare"]
    if _is_computed(match):
        return None
    name = match["name"].lower()
    issued = name == "token" and _is_number_of_issuer(before, value)
    if match["markup"] and not issued and not _looks_made(value):
        return None
    if _PASSWORD.match(name):
        known = name != "pass" or _is_password(before, match)
        return "password" if known and _is_password_value(match, value) else None
    listed = (match["said"] or "").endswith(": ")
    if issued or (_looks_made(value) and not listed):
        return _classify_key_value(
            before=before, name=name, suffix=match["suffix"], value=value
        )
    return None


def _is_computed(match: re.Match[str]) -> bool:
    """Return True for a formula, of Go for example.

    An unquoted value with a sign of arithmetic declares a name other than a constant, or the value is a term of a sum
    or a product.
    """
    if match["quoted"] is not None:
        return False
    before = match.string[match.end("suffix") : match.start("bare")]
    value = match["bare"]
    if (
        _DECLARED.search(before)
        and len(value) < FORMULA_CHARS
        and _FORMULA.match(value)
    ):
        has_sign = any(sign in value for sign in "+*/%^")
        return has_sign and not match["name"].isupper()
    return "=" in before and bool(_TERM.match(match.string, match.end("bare")))


def _looks_made(value: str) -> bool:
    """Return True if a value mixes letters and figures, and is long enough for a key."""
    return _is_mixed_text(value) and len(value) >= 8


def _is_number_of_issuer(before: str, value: str) -> bool:
    """Return True if a token is a long number, and a name runs into the word: `facebookToken=123456789012345`."""
    return len(value) >= 15 and value.isdecimal() and bool(_OF_ISSUER.search(before))


def _is_password(before: str, match: re.Match[str]) -> bool:
    """Return True if "pass" means a password, and not that a test passed."""
    return (
        before.lower().endswith(("db_", "db-", "_", "-"))
        or match["quoted"] is not None
        or match["said"] is not None
        or _is_line_of_settings(before, match)
    )


def _is_password_value(match: re.Match[str], value: str) -> bool:
    """Return True for what may be a password: quoted text, letters mixed with figures, or a number.

    In prose quoted text counts if it isn't code, and bare text if it is words in a row.
    """
    if _is_mixed_text(value) and not _CODE.match(value):
        return True
    if value.rstrip(".,").isdecimal() and not match["suffix"]:
        return True
    if not match["said"]:
        return match["quoted"] is not None or _is_label(match)
    becomes = match["said"].endswith((" to ", " auf "))
    quoted = match["quoted"] is not None and not becomes
    return bool(_PARTS.match(value)) or (quoted and not _is_code_or_path(value))


def _is_line_of_settings(before: str, match: re.Match[str]) -> bool:
    """Return True if the name begins its line and a sign of equality follows it, as in an INI file."""
    after = match.string[match.end("suffix") : match.end("suffix") + 3].lstrip(" \t")
    return after.startswith("=") and not before.rpartition("\n")[2].strip()


def _classify_key_value(
    before: str,
    name: str,
    suffix: str,
    value: str,
) -> str | None:
    """Return the kind of a value that looks made by a machine; None if the name or the value speaks against a key.

    A bare hash is not a secret under `token` alone: as often it is a cursor or a commit.
    """
    if _is_code_or_path(value):
        return None
    if name == "key":
        return _classify_key(before, value)
    if name == "token" and not suffix:
        named = _SAFE_TOKEN.search(before) or _OF_ISSUER.search(before)
        if (_HASH.match(value) and not named) or _OTHER_TOKEN.search(before):
            return None
    return "secret"


def _classify_key(before: str, value: str) -> str | None:
    """Return the kind of a key's value; None for a key of a dict, a cache or a table."""
    of_variable = len(value) >= 20 and _OF_VARIABLE.search(before)
    if not (of_variable or _KEY_OF.search(before)):
        return None
    return "aws-secret-key" if len(value) == 40 and _AWS.search(before) else "secret"


def _is_label(match: re.Match[str]) -> bool:
    """Return True if a line of prose ends in `password: word`."""
    after = match.string[match.end() : match.end() + 1]
    return (
        match["bare"].isalpha()
        and match["bare"].islower()
        and match[0].endswith(f": {match['bare']}")
        and after in ("", "\n")
    )


def _is_code_or_path(value: str) -> bool:
    return bool((len(value) < CODE_CHARS and _CODE.match(value)) or _PATH.match(value))
