"""Secrets are replaced by typed placeholders; what only looks like one stays. Every key here is made up, in pieces."""

import json
import os
import random
from collections import Counter
from pathlib import Path
from string import ascii_letters, ascii_uppercase, digits

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.harness import run
from bench.nights.redaction import measure
from slowwave.tasks.ingest.parsing.records import Block, Message
from slowwave.tasks.ingest.transcripts import redact_message
from slowwave.text.redact import redact, redact_text

MIXED = "a1B2c3D4e5F6g7H8i9J0kLmNoPqRsTuVwXyZ0123456789AbCdEfGhIjKlMnOpQr"
# Every token is made at run time, from a seed, so that no scanner takes this file for a leak.
ALNUM = ascii_letters + digits
WORD = ALNUM + "_-"
HEX = "0123456789abcdef"

# Kind: its prefixes, then what follows: alphabets with lengths, and literals.
KINDS: dict[str, tuple[tuple[str, ...], tuple[tuple[str, int] | str, ...]]] = {
    "anthropic-key": (("sk-ant-api03-", "sk-ant-oat01-"), ((WORD, 93), "AA")),
    "openrouter-key": (("sk-or-v1-",), ((HEX, 64),)),
    "openai-key": (("sk-", "sk-proj-", "sk-svcacct-", "sk-admin-"), ((ALNUM, 48),)),
    "github-token": (
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        ((ALNUM, 36),),
    ),
    "github-token ": (("ghp_", "ghs_"), ((ALNUM, 76),)),
    "gitlab-token": (
        ("glpat-", "gldt-", "glft-", "glsoat-", "glrt-", "GR1348941"),
        ((WORD, 19), (ALNUM, 1)),
    ),
    "google-api-key": (("AIza",), ((WORD, 35),)),
    "google-oauth": (("ya29.", "GOCSPX-"), ((WORD, 28),)),
    "huggingface-token": (("hf_", "api_org_"), ((ALNUM, 34),)),
    "slack-token": (
        ("xoxb-", "xoxp-"),
        ((digits, 12), "-", (digits, 12), "-", (ALNUM, 24)),
    ),
    "slack-token ": (
        ("xapp-1-A012345-", "xoxc-", "xoxe.xoxp-1-"),
        ((digits, 12), "-", (HEX, 64)),
    ),
    "slack-token  ": (("xoxd-",), ((ALNUM + "+/", 30), "%2B", (ALNUM, 30), "%3D")),
    "slack-token   ": (
        ("https://hooks.slack.com/services/",),
        ("T", (ALNUM, 8), "/B", (ALNUM, 8), "/", (ALNUM, 24)),
    ),
    "aws-access-key": (
        ("AKIA", "ASIA", "ABIA", "ACCA"),
        ((ascii_uppercase + digits, 16),),
    ),
    "azure-storage-key": (("AccountKey=",), ((ALNUM + "+/", 86), "==")),
    "stripe-key": (
        ("sk_live_", "rk_live_", "sk_test_", "rk_test_", "whsec_"),
        ((ALNUM, 24),),
    ),
    "sendgrid-key": (("SG.",), ((WORD, 22), ".", (WORD, 43))),
    "pypi-token": (
        ("pypi-AgEIcHlwaS5vcmc", "pypi-AgENdGVzdC5weXBpLm9yZw"),
        ((WORD, 90),),
    ),
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
    *(
        "",
        " ",
        "\n",
        "=",
        ":",
        "'",
        '"',
        "`",
        "(",
        "[",
        "{",
        "<b>",
        "|",
        ",",
        ".",
        "@",
        "/",
        "+",
        "-",
        "_",
        "*",
        "#",
    ),
    *("é", "：", "“", "\u200b", "&nbsp;", "use=", "x: "),
    *(
        "\\n",
        "\\t",
        "\\r\\n",
        "\\\\n",
        '\\"',
        "\\/",
        "\\u003d",
        "\\u001b[31m",
        "\\x1b[1m",
        "\\033[0m",
        "\\e[1;32m",
    ),
    *(
        "\x1b[31m",
        "\x1b[0m",
        "\x1b[m",
        "\x1b[1;38;5;196m",
        "\x1b[K",
        "\x1b[?25h",
        "[32m",
        "^[[31m",
    ),
    *(
        "%20",
        "%3D",
        "%3d",
        "%22",
        "%0A",
        "a%20b%2F",
        "?key=",
        "&auth=",
        "/v1/",
        "https://",
        "git+https://u:",
        "\\x20",
    ),
    *(
        "postgres://",
        "https:\\/\\/",
        "Bearer ",
        "Authorization: token ",
        "curl -u ",
        "--header=",
        "export X=",
    ),
]
AFTER = [
    *("", " ", "\n", ".", ". So", ",", ";", ":", "'", '"', "`", ")", "]", "}"),
    *("</b>", "|", "*", "/", "/v1", "&x=1", "#a"),
    *("\\n", "\\nnext", "\\t", "\\r\\n", '\\"', '\\\\"', "\\u0026"),
    *("\\u001b[0m", "\x1b[0m", "\x1b[K", "[0m", "\\x1b[0m"),
    *(
        "%20",
        "%20and",
        "%22",
        "%26x",
        "%0A",
        "é",
        "”",
        "。",
        "\u200b",
        "&amp;",
        "?x",
        "!",
    ),
    *(
        "@github.com/a/b.git",
        ":x-oauth-basic@github.com",
        ":@api.example.com",
        ":80/x",
        "\\/b",
    ),
]


def made(kind: str) -> list[tuple[str, str]]:
    """A token of each prefix, and all characters that may stand in it."""
    chance = random.Random(kind)
    prefixes, parts = KINDS[kind]
    body = "".join(
        "".join(chance.choices(p[0], k=p[1])) if isinstance(p, tuple) else p
        for p in parts
    )
    return [
        (prefix + body, "".join(p[0] for p in parts if isinstance(p, tuple)))
        for prefix in prefixes
    ]


TOKENS = {kind.strip(): made(kind)[0][0] for kind in KINDS}
PEM = f"-----BEGIN RSA {'PRIVATE'} KEY-----\n{MIXED}\n{MIXED}\n-----END RSA {'PRIVATE'} KEY-----"

FORMED = "vX9!" + "kq#7Lm"
DISCORD = "MT" + "A" + MIXED[:21] + "." + MIXED[:6] + "." + MIXED[:27]
# Of the standard's examples.
WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"
# JSON in JSON in JSON.
# A card network's number for tests.
# Of the standard's examples.
ASSIGNED = [  # text, the secret in it
    ('password = "hunter2"', "hunter2"),
    ("DB_PASSWORD=s3cr3t-pw", "s3cr3t-pw"),
    ("PASSWORD := hunter+22", "hunter+22"),  # a makefile's
    ("password := abc12345", "abc12345"),
    (
        "export API_KEY='a8f5f167f44f4964e6c998dee827110c'",
        "a8f5f167f44f4964e6c998dee827110c",
    ),
    ("password: hunter22", "hunter22"),
    ('{"client_secret": "9xKq-22abPo"}', "9xKq-22abPo"),
    ('config["db_password"] = "tr0ub4dor"', "tr0ub4dor"),
    ('password: str = "correct-horse"', "correct-horse"),
    ("mysql --password=Tr0ub4dor -u root", "Tr0ub4dor"),
    ("curl --api-key 12ab34cd56ef78 x", "12ab34cd56ef78"),
    ("postgres://app:pa55w@db.local:5432/shop", "pa55w"),
    ("redis://:pw1x@cache:6379", "pw1x"),
    ("my password is hunter22, don't tell", "hunter22"),
    ("Authorization: Bearer " + MIXED[:30], MIXED[:30]),
    ("curl -H 'Authorization: Basic dXNlcjpodW50ZXIy'", "dXNlcjpodW50ZXIy"),
    ("aws_secret_access_key = " + MIXED[:40], MIXED[:40]),
    ("accessToken: 'q1w2e3r4t5y6'", "q1w2e3r4t5y6"),
    ("İpassword=abcd1234", "abcd1234"),
    (
        '"{\\\\\\"db_password\\\\\\": \\\\\\"tr0ub4dor\\\\\\"}"',
        "tr0ub4dor",
    ),
    ("\x1b[36mdb_password\x1b[0m=\x1b[35mhunter22\x1b[0m", "hunter22"),
    (r"\nBearer " + MIXED[:30] + r"\n", MIXED[:30]),
    ("Bearer%20" + MIXED[:30], MIXED[:30]),
    (r"https:\/\/app:pa55w@db.local\/shop", "pa55w"),
    ("https://q1w2e3r4t5y6u7i8:x-oauth-basic@github.com", "q1w2e3r4t5y6u7i8"),
    ("curl -s -u ann:correct-horse https://ci.local", "correct-horse"),
    ("mysql -u root -ptr0ub4dor shop", "tr0ub4dor"),
    ("machine ci.local login ann password battery", "battery"),
    ("db.local:5432:shop:app:staple", "staple"),
    ('{"auths": {"r.local": {"auth": "YW5uOmh1bnRlcjI="}}}', "YW5uOmh1bnRlcjI="),
    ("<adobeToken>\n  22d69dfc700598a2f89d\n</adobeToken>", "22d69dfc700598a2f89d"),
    ("adobe_token: |\n  22d69dfc700598a2f89d", "22d69dfc700598a2f89d"),
    ('ADOBE_TOKEN ?= "22d69dfc700598a2f89d"', "22d69dfc700598a2f89d"),
    ('<add key="ClearTextPassword" value="staple1" />', "staple1"),
    ("Use " + FORMED + " for the staging box.", FORMED),
    ("Das Passwort für den Server ist hunter22.", "hunter22."),
    ("Le mot de passe est hunter22", "hunter22"),
    ("La clave del wifi es hunter22", "hunter22"),
    ("login: root, pw: hunter22", "hunter22"),
    ("redis-cli -h cache -a battery ping", "battery"),
    ("sshpass -p 'battery' ssh ops@host", "battery"),
    ("openssl rsa -passin pass:battery -in key.pem", "battery"),
    ("curl -u :q1w2e3r4 https://ci.local", "q1w2e3r4"),
    (
        "HEROKU_KEY=12345678-aaaa-bbbb-cccc-1234567890ab",
        "12345678-aaaa-bbbb-cccc-1234567890ab",
    ),
    ("https://x.example/c?sv=2026&sig=" + MIXED[:43] + "%3D", MIXED[:43] + "%3D"),
    ("the bot is " + DISCORD, DISCORD),
    ("My card's PIN is 4821", "4821"),
    ("My PIN is 4821.", "4821"),
    (
        "my visa is 4111 1111 1111 1111",
        "4111 1111 1111 1111",
    ),
    (
        "transfer it to DE89 3704 0044 0532 0130 00",
        "DE89 3704 0044 0532 0130 00",
    ),
    ("seed phrase: " + WORDS, WORDS),
    ("The guest password is 'lavender', ask me.", "lavender"),
    ("wifi password: sunflower", "sunflower"),
    ("the passphrase is orchid-lamp-seven-river", "orchid-lamp-seven-river"),
    ("The alarm password is 84736251", "84736251"),
    ("Passwort vom NAS: hunter22", "hunter22"),
    ("reset her password to hunter22 please", "hunter22"),
    ("login ann, password u7hunter22", "u7hunter22"),
    ("my bank pin is 7391", "7391"),
    ("Cookie: theme=dark; sid=9f8e7d6c5b4a", "theme=dark; sid=9f8e7d6c5b4a"),
    (
        "Backup codes:\n1. k3v9-x2m8\n2. q7w1-p4z6\n3. b5n0-t8r2",
        "k3v9-x2m8\n2. q7w1-p4z6\n3. b5n0-t8r2",
    ),
]

CLEAN = [
    # formulas of code, which are no words that anybody typed as a password
    "passwd = base64*4 + 7*rounds",
    "secret := x0*w1+b2",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8 fixes it",
    "id 550e8400-e29b-41d4-a716-446655440000",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "SGVsbG8gd29ybGQsIHRoaXMgaXMgcGxhaW4gdGV4dA==",
    "password: yes",
    "Password: <password>",
    "password = <your-password>",
    "PASSWORD=${DB_PASSWORD}",
    "password=$DB_PASSWORD1",
    'api_key = os.environ["API_KEY"]',
    'key = os.getenv("OPENAI_API_KEY2")',
    "apiKey: process.env.API_KEY2,",
    "password = get_password(user1)",
    "self.password = self.settings.password1",
    'password: "{{ vault_password_1 }}"',
    'API_KEY="your-api-key-here"',
    "token = tokens[0]",
    "max_tokens=1024, token_count: 2048",
    'next_page_token: "CAUQAA1b2c3d4"',
    'password_hash = "5f4dcc3b5aa765d61d8327deb882cf99"',
    "token: 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "the primary key: order_id_1234567",
    "Forgot your password? The password is on the note.",
    "sk-learn and task-12345678901234567890123456789012 are not keys",
    "git@github.com:user/repo1.git and https://example.com:8080/a@b",
    "redis://[[username]:[password]]@localhost:6379/0",
    r'r"https?:\/\/(?:[\w_-]+(?:\.[\w_-]+)+)(?:[\w.,@?^=%&:\/~+#-]*)"',
    "risk-a1B2c3D4e5F6g7H8i9J0kLmNoPqRsTuVwXyZ and desk-" + MIXED,
    "Issue#123, C3%B6%C3%B6b%C3%A4r, $Var1Name, user@Host1 and A1*B2",
    "order 4111 1111 1111 1112, 446791136 263296, DE89 3704 0044 0532 0130 01 and PIN 13",
    "mkdir -p build2 && docker run -p 8080:80 app1",
    "Product codes: AB123456, AB123457, AB123458 and errors 1045, 2002; codes 10115, 20117, 30119",
    "password: incorrect, pin the version to 2024.1, the password is stored as a hash, password: SecretStr",
    "Cookie: theme=dark; lang=de",
    'grep -r "BEGIN RSA PRIVATE KEY" .',
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----",
]


def test_of_published_rules_nearly_every_secret_is_known_and_hardly_a_line_without(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`SLOWWAVE_SECRET_RULES` names gitleaks' config/gitleaks.toml; the examples are made here, and kept nowhere."""
    if not (path := os.environ.get("SLOWWAVE_SECRET_RULES")):
        pytest.skip("SLOWWAVE_SECRET_RULES names no file of rules")
    run(measure, [path, "--json"])
    (found,) = json.loads(capsys.readouterr().out)
    assert found["true"] > 200
    assert found["redacted"] >= 0.95
    assert found["touched"] <= 0.02


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_stands_around_it_a_token_goes_and_the_rest_stays(kind: str) -> None:
    for n, (token, alphabet) in enumerate(made(kind)):
        # Else no telling where it ends.
        ends = [after for after in AFTER if after[:1] != "/" or "/" not in alphabet]
        for before in BEFORE[:: 8 if n else 1]:  # of other prefixes a sample
            clean, found = redact(
                "~\n".join(f"{before}{token}{after}" for after in ends)
            )
            assert clean.split("~\n") == [
                f"{before}[redacted:{kind.strip()}]{after}" for after in ends
            ]
            assert found == {kind.strip(): len(ends)}


@pytest.mark.parametrize(("text", "secret"), ASSIGNED)
def test_a_value_assigned_to_a_telling_name_is_redacted_alone(
    text: str, secret: str
) -> None:
    clean, found = redact(text)
    before, after = text.split(secret)
    assert clean.startswith(before + "[redacted:")
    assert clean.endswith("]" + after)
    assert found.total() == 1


@pytest.mark.parametrize("text", CLEAN)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert redact(text) == (text, Counter())


def test_a_private_key_goes_as_a_whole_even_when_its_end_is_cut_off() -> None:
    assert redact_text(f"key:\n{PEM}\nthanks") == "key:\n[redacted:private-key]\nthanks"
    assert redact_text(PEM.replace("\n", "\\n")) == "[redacted:private-key]"
    cut = PEM[: PEM.index("-----END") - 10]
    assert (
        redact_text(cut)
        == redact_text(cut.replace("\n", "\\\\n"))
        == "[redacted:private-key]"
    )


def test_arguments_in_json_stay_json_and_a_member_is_judged_by_its_name() -> None:
    named = TOKENS["npm-token"]  # a file's name or an address may stand there
    arguments = {
        "cmd": 'export PASSWORD="hunter2" && run',
        "env": {"DB_PASSWORD": 'tr0"ub4dor', "n": 2**70},
        "key": "up",
        "paid": [4111111111111111, 12],
    }
    message = Message(
        "s",
        "1",
        "assistant",
        "model",
        [Block("tool_call", json.dumps(arguments), name=named)],
        "",
    )
    found = redact_message(message)
    after = json.loads(message.blocks[0].text or "")
    assert after["cmd"] == 'export PASSWORD="[redacted:password]" && run'
    assert after["env"] == {"DB_PASSWORD": "[redacted:password]", "n": 2**70}
    assert after["key"] == "up"
    assert after["paid"] == ["[redacted:card]", 12]
    assert message.blocks[0].name == "[redacted:npm-token]"
    assert found == Counter({"password": 2, "npm-token": 1, "card": 1})


def test_a_secret_that_stands_in_block_and_text_counts_once() -> None:
    said = f"it is {TOKENS['github-token']}"
    message = Message(
        "s",
        "1",
        "user",
        "human",
        [Block("text", said), Block("image", media="image/png")],
        said,
    )
    assert redact_message(message) == Counter({"github-token": 1})
    assert message.text == message.blocks[0].text == "it is [redacted:github-token]"


PIECES = [
    *TOKENS.values(),
    *(text for text, _ in ASSIGNED),
    *CLEAN,
    PEM,
    "[redacted:password]",
    *'=:" ]',
]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=6).map(
        "".join
    )
)
def test_redacting_twice_changes_nothing(text: str) -> None:
    once = redact_text(text)
    assert redact(once) == (once, Counter())


def test_no_false_alarm_in_real_conversations(bench_data: Path) -> None:
    lines = (
        Path(bench_data, "fixtures/pi/large-session.jsonl").read_bytes().splitlines()
    )
    talks = orjson.loads(Path(bench_data, "locomo/locomo_open.json").read_bytes())
    said = (
        turns
        for talk in talks
        for turns in talk["conversation"].values()
        if isinstance(turns, list)
    )
    turns = [turn["text"] for one in said for turn in one]
    assert len(turns) == 1417
    assert (
        sum(
            (redact(text)[1] for text in [*turns, *map(bytes.decode, lines)]), Counter()
        )
        == Counter()
    )


def test_json_in_the_midst_of_other_text_stays_json() -> None:
    said = 'log: {"card": 4111111111111111, "password": 48213377} and \\"pin_password\\": 48213377}'
    clean = redact_text(said)
    assert json.loads(clean[5 : clean.index("}") + 1]) == {
        "card": "[redacted:card]",
        "password": "[redacted:password]",
    }
    assert clean.endswith('\\"pin_password\\": \\"[redacted:password]\\"}')
    assert redact_text(clean) == clean


@pytest.mark.parametrize("prefix", ["ghp", "ghs", "npm"])
def test_a_token_is_known_by_its_checksum_wherever_it_stands(prefix: str) -> None:
    # the CRC-32 of these thirty letters, in base 62, is 3NiZrn
    word = "QuayLampCrane7MillDock8TideFer" + "3NiZrn"
    token = f"{prefix}_{word}"
    assert redact_text(f"x{token}y") == "x[redacted:issued-token]y"
    wrapped = f"export T={token[:20]}\n  {token[20:]}"
    assert word[20:] not in redact_text(wrapped)
    # another last letter: no such token was ever issued, and only the rule of its form counts
    assert redact_text(f"x{token[:-1]}8y") == f"x{token[:-1]}8y"


@pytest.mark.parametrize(
    ("table", "secret"),
    [
        ("| user | password |\n|---|---|\n| ada | Lampquay526 |", "Lampquay526"),
        ("user,password\nada,Lampquay526\n", "Lampquay526"),
        ("host\tAPI key\tport\nx1\tLampquay526\t80", "Lampquay526"),
        ("Dienst;Passwort\nMail;Lampquay526", "Lampquay526"),
        ("[smtp]\nhost=mx\npass=Lampquay526", "Lampquay526"),
        ("[smtp]\npass = Lampquay526", "Lampquay526"),
        ("user | password\n-----+----\nada | Lampquay526", "Lampquay526"),
    ],
)
def test_the_heading_of_a_column_names_its_values(table: str, secret: str) -> None:
    clean = redact_text(table)
    assert secret not in clean
    assert (
        clean.replace("[redacted:secret]", secret).replace(
            "[redacted:password]", secret
        )
        == table
    )  # nothing else is touched


@pytest.mark.parametrize(
    "table",
    [
        "| Key | Value |\n|---|---|\n| lamp1quay | 8080abc |",
        "| name | password length |\n|---|---|\n| ada | 12letters |",
        "We count tokens, keys\nlamp1quay, mill2dock",
        "id,token_count\nlamp1quay,mill2dock",
        "pass=12 fail=0",
        "| test | pass |\n|---|---|\n| lamp1 | yes |",
    ],
)
def test_a_column_of_other_things_is_left(table: str) -> None:
    assert redact_text(table) == table


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("API_KEY=your_api_key_1", True),
        ("secret: my-secret-1", True),
        ('api_key = "EXAMPLE1KEY"', True),
        ("key AKIAIOSFODNN7" + "EXAMPLE", True),  # AWS's documentation
        ('"password": "string"', True),
        ("curl -u user:pass https://api.test", True),
        ("postgres://user:password@localhost/db", True),
        ("postgres://user:passwort7@localhost/db", False),
        ("password: mydog12345", False),
        ("password: changeit99x", False),
    ],
)
def test_what_stands_for_a_secret_is_none_and_what_is_only_weak_is(
    line: str, kept: bool
) -> None:
    assert (redact_text(line) == line) is kept
