"""Secrets are replaced by typed placeholders; what only looks like one stays. Every key here is made up, in pieces."""

import json
import os
from collections import Counter
from pathlib import Path

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
HEX = "0123456789abcdef" * 8

# Put together at run time, so that no scanner takes this file for a leak.
TOKENS = {
    "anthropic-key": "sk-" + "ant-api03-" + MIXED[:40],
    "openai-key": "sk-" + "proj-" + MIXED[:48],
    "openrouter-key": "sk-" + "or-v1-" + HEX[:64],
    "github-token": "gh" + "p_" + MIXED[:36],
    "gitlab-token": "gl" + "pat-" + MIXED[:20],
    "google-api-key": "AI" + "za" + MIXED[:35],
    "google-oauth": "ya" + "29." + MIXED[:40],
    "huggingface-token": "h" + "f_" + MIXED[:34],
    "slack-token": "xo" + "xb-123456789012-123456789012-" + MIXED[:24],
    "aws-access-key": "AK" + "IA" + "ABCDEFGH2345WXYZ",
    "stripe-key": "sk_" + "live_" + MIXED[:24],
    "sendgrid-key": "S" + "G." + MIXED[:22] + "." + MIXED[:43],
    "npm-token": "np" + "m_" + MIXED[:36],
    "pypi-token": "py" + "pi-AgEIcHlwaS5vcmc" + MIXED * 2,
    "jwt": "ey" + "JhbGciOiJIUzI1NiJ9." + "ey" + "JzdWIiOiIxMjM0In0." + MIXED[:43],
    "telegram-token": "123456789:" + "AA" + MIXED[:33],
    "digitalocean-token": "dop" + "_v1_" + HEX[:64],
    "databricks-token": "da" + "pi" + HEX[:32],
    "groq-key": "gs" + "k_" + MIXED[:52],
    "vault-token": "hv" + "s." + MIXED[:40],
    "slack-token ": "https://hooks." + "slack.com/services/T0123/B0123/" + MIXED[:24],
    "azure-storage-key": "Account" + "Key=" + MIXED + MIXED[:22] + "==",
}
PEM = f"-----BEGIN RSA {'PRIVATE'} KEY-----\n{MIXED}\n{MIXED}\n-----END RSA {'PRIVATE'} KEY-----"

FORMED = "vX9!" + "kq#7Lm"
DISCORD = "MT" + "A" + MIXED[:21] + "." + MIXED[:6] + "." + MIXED[:27]
WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"  # of the standard's examples
ASSIGNED = [  # text, the secret in it
    ('password = "hunter2"', "hunter2"),
    ("DB_PASSWORD=s3cr3t-pw", "s3cr3t-pw"),
    ("export API_KEY='a8f5f167f44f4964e6c998dee827110c'", "a8f5f167f44f4964e6c998dee827110c"),
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
    ('"{\\\\\\"db_password\\\\\\": \\\\\\"tr0ub4dor\\\\\\"}"', "tr0ub4dor"),  # JSON in JSON in JSON
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
    ("HEROKU_KEY=12345678-aaaa-bbbb-cccc-1234567890ab", "12345678-aaaa-bbbb-cccc-1234567890ab"),
    ("https://x.example/c?sv=2026&sig=" + MIXED[:43] + "%3D", MIXED[:43] + "%3D"),
    ("the bot is " + DISCORD, DISCORD),
    ("My card's PIN is 4821", "4821"),
    ("My PIN is 4821.", "4821"),
    ("my visa is 4111 1111 1111 1111", "4111 1111 1111 1111"),  # a card network's number for tests
    ("transfer it to DE89 3704 0044 0532 0130 00", "DE89 3704 0044 0532 0130 00"),  # of the standard's examples
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
    ("Backup codes:\n1. k3v9-x2m8\n2. q7w1-p4z6\n3. b5n0-t8r2", "k3v9-x2m8\n2. q7w1-p4z6\n3. b5n0-t8r2"),
]

CLEAN = [
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


@pytest.mark.parametrize("name", TOKENS)
def test_an_issuers_token_becomes_a_placeholder_of_its_kind(name: str) -> None:
    text, found = redact(f"use {TOKENS[name]} here")
    assert (text, found) == (f"use [redacted:{name.strip()}] here", Counter({name.strip(): 1}))


@pytest.mark.parametrize(("text", "secret"), ASSIGNED)
def test_a_value_assigned_to_a_telling_name_is_redacted_alone(text: str, secret: str) -> None:
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
    assert redact_text(cut) == redact_text(cut.replace("\n", "\\\\n")) == "[redacted:private-key]"


def test_arguments_in_json_stay_json_and_a_member_is_judged_by_its_name() -> None:
    named = TOKENS["npm-token"]  # a file's name or an address may stand there
    arguments = {
        "cmd": 'export PASSWORD="hunter2" && run',
        "env": {"DB_PASSWORD": 'tr0"ub4dor', "n": 2**70},
        "key": "up",
        "paid": [4111111111111111, 12],
    }
    message = Message("s", "1", "assistant", "model", [Block("tool_call", json.dumps(arguments), name=named)], "")
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
    message = Message("s", "1", "user", "human", [Block("text", said), Block("image", media="image/png")], said)
    assert redact_message(message) == Counter({"github-token": 1})
    assert message.text == message.blocks[0].text == "it is [redacted:github-token]"


PIECES = [*TOKENS.values(), *(text for text, _ in ASSIGNED), *CLEAN, PEM, "[redacted:password]", *'=:" ]']


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=6).map("".join))
def test_redacting_twice_changes_nothing(text: str) -> None:
    once = redact_text(text)
    assert redact(once) == (once, Counter())


def test_no_false_alarm_in_real_conversations(bench_data: Path) -> None:
    lines = Path(bench_data, "fixtures/pi/large-session.jsonl").read_bytes().splitlines()
    talks = orjson.loads(Path(bench_data, "locomo/locomo_open.json").read_bytes())
    said = (turns for talk in talks for turns in talk["conversation"].values() if isinstance(turns, list))
    turns = [turn["text"] for one in said for turn in one]
    assert len(turns) == 1417
    assert sum((redact(text)[1] for text in [*turns, *map(bytes.decode, lines)]), Counter()) == Counter()


def test_json_in_the_midst_of_other_text_stays_json() -> None:
    said = 'log: {"card": 4111111111111111, "password": 48213377} and \\"pin_password\\": 48213377}'
    clean = redact_text(said)
    assert json.loads(clean[5 : clean.index("}") + 1]) == {"card": "[redacted:card]", "password": "[redacted:password]"}
    assert clean.endswith('\\"pin_password\\": \\"[redacted:password]\\"}')
    assert redact_text(clean) == clean
