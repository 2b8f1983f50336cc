"""A token is known for one whatever stands around it. Every token is made at run time, from a seed."""

import random
from string import ascii_letters, ascii_uppercase, digits

import pytest

from slowwave.text.redact import redact

ALNUM = ascii_letters + digits
WORD = ALNUM + "_-"
HEX = "0123456789abcdef"

# Kind: its prefixes, then what follows: alphabets with lengths, and literals.
KINDS: dict[str, tuple[tuple[str, ...], tuple[tuple[str, int] | str, ...]]] = {
    "anthropic-key": (("sk-ant-api03-", "sk-ant-oat01-"), ((WORD, 93), "AA")),
    "openrouter-key": (("sk-or-v1-",), ((HEX, 64),)),
    "openai-key": (("sk-", "sk-proj-", "sk-svcacct-", "sk-admin-"), ((ALNUM, 48),)),
    "github-token": (("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"), ((ALNUM, 36),)),
    "github-token ": (("ghp_", "ghs_"), ((ALNUM, 76),)),
    "gitlab-token": (("glpat-", "gldt-", "glft-", "glsoat-", "glrt-", "GR1348941"), ((WORD, 19), (ALNUM, 1))),
    "google-api-key": (("AIza",), ((WORD, 35),)),
    "google-oauth": (("ya29.", "GOCSPX-"), ((WORD, 28),)),
    "huggingface-token": (("hf_", "api_org_"), ((ALNUM, 34),)),
    "slack-token": (("xoxb-", "xoxp-"), ((digits, 12), "-", (digits, 12), "-", (ALNUM, 24))),
    "slack-token ": (("xapp-1-A012345-", "xoxc-", "xoxe.xoxp-1-"), ((digits, 12), "-", (HEX, 64))),
    "slack-token  ": (("xoxd-",), ((ALNUM + "+/", 30), "%2B", (ALNUM, 30), "%3D")),
    "slack-token   ": (("https://hooks.slack.com/services/",), ("T", (ALNUM, 8), "/B", (ALNUM, 8), "/", (ALNUM, 24))),
    "aws-access-key": (("AKIA", "ASIA", "ABIA", "ACCA"), ((ascii_uppercase + digits, 16),)),
    "azure-storage-key": (("AccountKey=",), ((ALNUM + "+/", 86), "==")),
    "stripe-key": (("sk_live_", "rk_live_", "sk_test_", "rk_test_", "whsec_"), ((ALNUM, 24),)),
    "sendgrid-key": (("SG.",), ((WORD, 22), ".", (WORD, 43))),
    "pypi-token": (("pypi-AgEIcHlwaS5vcmc", "pypi-AgENdGVzdC5weXBpLm9yZw"), ((WORD, 90),)),
    "npm-token": (("npm_",), ((ALNUM, 36),)),
    "mailchimp-key": (("",), ((HEX, 32), "-us21")),
    "square-token": (("sq0csp-",), ((WORD, 43),)),
    "jwt": (("eyJ",), ((WORD, 20), ".eyJ", (WORD, 40), ".", (WORD, 43))),
    "telegram-token": (("",), ("8", (digits, 9), ":AA", (WORD, 33))),
    "digitalocean-token": (("dop_v1_", "doo_v1_", "dor_v1_"), ((HEX, 64),)),
    "shopify-token": (("shpat_", "shpca_", "shppa_", "shpss_"), ((HEX, 32),)),
    "databricks-token": (("dapi",), ((HEX, 32),)),
    "groq-key": (("gsk_",), ((ALNUM, 52),)),
    "xai-key": (("xai-",), ((ALNUM, 80),)),
    "perplexity-key": (("pplx-",), ((ALNUM, 48),)),
    "replicate-token": (("r8_",), ((ALNUM, 37),)),
    "linear-key": (("lin_api_",), ((ALNUM, 40),)),
    "notion-token": (("ntn_",), ((ALNUM, 46),)),
    "docker-token": (("dckr_pat_", "dckr_oat_"), ((WORD, 27),)),
    "vault-token": (("hvs.", "hvb."), ((WORD, 90),)),
    "grafana-token": (("glsa_",), ((ALNUM, 32), "_", (HEX, 8))),
    "supabase-key": (("sbp_", "sb_secret_"), ((ALNUM, 40),)),
    "atlassian-token": (("ATATT3", "ATCTT3"), ((WORD, 180), "=", (HEX.upper(), 8))),
    "sentry-token": (("sntrys_", "sntryu_"), ((ALNUM + "+/", 64),)),
    "figma-token": (("figd_",), ((WORD, 40),)),
    "age-key": (("AGE-SECRET-KEY-1",), ((ascii_uppercase + digits, 58),)),
}

BEFORE = [
    *("", " ", "\n", "=", ":", "'", '"', "`", "(", "[", "{", "<b>", "|", ",", ".", "@", "/", "+", "-", "_", "*", "#"),
    *("é", "：", "“", "\u200b", "&nbsp;", "use=", "x: "),
    *("\\n", "\\t", "\\r\\n", "\\\\n", '\\"', "\\/", "\\u003d", "\\u001b[31m", "\\x1b[1m", "\\033[0m", "\\e[1;32m"),
    *("\x1b[31m", "\x1b[0m", "\x1b[m", "\x1b[1;38;5;196m", "\x1b[K", "\x1b[?25h", "[32m", "^[[31m"),
    *("%20", "%3D", "%3d", "%22", "%0A", "a%20b%2F", "?key=", "&auth=", "/v1/", "https://", "git+https://u:", "\\x20"),
    *("postgres://", "https:\\/\\/", "Bearer ", "Authorization: token ", "curl -u ", "--header=", "export X="),
]
AFTER = [
    *(
        "",
        " ",
        "\n",
        ".",
        ". So",
        ",",
        ";",
        ":",
        "'",
        '"',
        "`",
        ")",
        "]",
        "}",
        "</b>",
        "|",
        "*",
        "/",
        "/v1",
        "&x=1",
        "#a",
    ),
    *(
        "\\n",
        "\\nnext",
        "\\t",
        "\\r\\n",
        '\\"',
        '\\\\"',
        "\\u0026",
        "\\u001b[0m",
        "\x1b[0m",
        "\x1b[K",
        "[0m",
        "\\x1b[0m",
    ),
    *("%20", "%20and", "%22", "%26x", "%0A", "é", "”", "。", "\u200b", "&amp;", "?x", "!"),
    *("@github.com/a/b.git", ":x-oauth-basic@github.com", ":@api.example.com", ":80/x", "\\/b"),
]


def made(kind: str) -> list[tuple[str, str]]:
    """A token of each prefix, and all characters that may stand in it."""
    chance = random.Random(kind)
    prefixes, parts = KINDS[kind]
    body = "".join("".join(chance.choices(p[0], k=p[1])) if isinstance(p, tuple) else p for p in parts)
    return [(prefix + body, "".join(p[0] for p in parts if isinstance(p, tuple))) for prefix in prefixes]


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_stands_around_it_a_token_goes_and_the_rest_stays(kind: str) -> None:
    for token, alphabet in made(kind):
        ends = [after for after in AFTER if after[:1] != "/" or "/" not in alphabet]  # else no telling where it ends
        for before in BEFORE:
            clean, found = redact("~\n".join(f"{before}{token}{after}" for after in ends))
            assert clean.split("~\n") == [f"{before}[redacted:{kind.strip()}]{after}" for after in ends]
            assert found == {kind.strip(): len(ends)}
