"""Words near others that speak for a secret are masked; what only looks like one stays. All are made up."""

import pytest

from slowwave.text.redact import redact_text

PASSWORD, KEY = "Qkwzvbhxt" + "418", "f7Rk2mWq9LzX" + "c4Vb8Nt1Hs6Yd3Pj"


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "DB_PASSWORD", "value": "{s}"}',  # the name in one field, the value in the next
        'variable "db_password" {\n  default = "{s}"\n}',
        "| user | password |\n|---|---|\n| ada | {s} |",
        "CREATE USER 'app'@'%' IDENTIFIED BY '{s}';",
        "smtp.login('ada@example.test', '{s}')",
        "db.internal:6432:app:app:{s}",
        "the admin password's {s} btw",
        "パスワードは {s} です",
        "das Passwort lautet {s}",
        "Password:\n\n{s}\n",  # the name in the line above, with an empty one between
        "user\nada\npassword\n{s}",
        "use {s} to get in",  # no word says what it is
    ],
)
def test_a_password_goes_by_the_words_around_it(text: str) -> None:
    shown = redact_text(text.replace("{s}", PASSWORD))
    before, after = text.split("{s}")
    assert shown in {
        f"{before}[redacted:{kind}]{after}" for kind in ("password", "secret")
    }
    assert redact_text(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "echo {s} | gh auth login --with-token",
        "https://x.example.test/hook?id=7&sig={s}",
    ],
)
def test_a_key_goes_by_the_words_around_it(text: str) -> None:
    assert KEY not in redact_text(text.replace("{s}", KEY))


@pytest.mark.parametrize(
    "text",
    [
        "We use gpt-4o-2024-08-06 with 12k tokens, see src/lamp7.py:42.",
        "commit 3f2a9c1d5e7b8f60a1b2c3d4e5f60718293a4b5c Fix the login page",
        "request 0f8fad5b-d9cb-469f-a165-70867728950e took 35ms",
        "password = os.environ['DB_PASSWORD_2']",
        'variable "image" {\n  default = "api:v1.20.3"\n}',
        "The password must have 8 characters, as step2 of docs/auth2.md says.",
        "boat 10 is called Berta10",
        "\x1b[32m▪ \x1b[32mStarting server...",  # a colour's code is no part of the word
        "npx playwright test --workers=1 --timeout=60000",
        "from lamp.s3.responses import S3Response",
    ],
)
def test_what_has_figures_and_is_no_secret_stays(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize("broken", ["\n", "\\n", "\n    "])
def test_the_second_half_of_a_private_key_goes_too(broken: str) -> None:
    lines = [f"{n}{KEY}{KEY}" for n in range(6)]
    half = broken.join((*lines, "-----END PRIVATE KEY-----"))
    assert redact_text(f"tail:\n{half}\nok") == "tail:\n[redacted:private-key]\nok"
