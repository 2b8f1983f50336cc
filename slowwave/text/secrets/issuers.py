"""Tokens that their issuers make with a prefix of their own: what they begin with, and what follows.

One shape for all: prefix, alphabet, length. Prefixes and lengths are those that the issuers publish, as gitleaks' rules
collect them (github.com/gitleaks/gitleaks); `python -m bench.nights.redaction` holds the two against each other.
"""

_LOWER = "[a-z0-9]"
_ALNUM = "[A-Za-z0-9]"
_WORD = "[A-Za-z0-9_-]"
_BASE64 = "[A-Za-z0-9+/]"
_DOTTED = "[A-Za-z0-9_=.-]"

Issued = tuple[str, tuple[str, ...], str]
"""Kind, prefixes, and the pattern of what follows them."""

ISSUED: tuple[Issued, ...] = (
    ("1password-token", ("ops_eyJ",), _BASE64 + "{100,}={0,3}"),
    ("1password-key", ("A3-",), "[A-Z0-9]{6}(?:-?[A-Z0-9]{5,6}){4,5}"),
    ("adobe-secret", ("p8e-",), _ALNUM + "{32}"),
    ("airtable-token", ("pat",), _ALNUM + r"{14}\.[a-f0-9]{64}"),
    ("alibaba-key", ("LTAI",), _ALNUM + "{20}"),
    ("artifactory-key", ("AKCp", "cmVmd"), _ALNUM + "{59,69}"),
    ("bedrock-key", ("ABSK", "bedrock-api-key-"), _BASE64 + "{28,400}={0,2}"),
    ("clickhouse-key", ("4b1d",), _ALNUM + "{38}"),
    ("clojars-token", ("CLOJARS_",), _ALNUM + "{60}"),
    ("cloudflare-key", ("v1.0-",), "[a-f0-9]{24}-[a-f0-9]{146}"),
    ("defined-token", ("dnkey-",), "[A-Za-z0-9=_-]{60,}"),
    ("doppler-token", ("dp.pt.", "dp.st.", "dp.ct.", "dp.sa."), r"[\w.-]{40,60}"),
    ("duffel-token", ("duffel_test_", "duffel_live_"), "[A-Za-z0-9_=-]{43}"),
    ("dynatrace-token", ("dt0c01.",), r"[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}"),
    ("easypost-token", ("EZAK", "EZTK"), _ALNUM + "{54}"),
    ("facebook-token", ("EAAM", "EAAC"), _ALNUM + "{100,}"),
    (
        "flutterwave-key",
        ("FLWSECK_TEST-", "FLWPUBK_TEST-", "FLWSECK-"),
        "[A-Za-z0-9]{12,40}(?:-X)?",
    ),
    ("flyio-token", ("fo1_", "fm1r_", "fm1a_", "fm2_"), "[A-Za-z0-9+/_-]{43,}={0,3}"),
    ("frameio-token", ("fio-u-",), "[A-Za-z0-9_=-]{64}"),
    ("gitlab-session", ("_gitlab_session=",), _LOWER + "{32}"),
    ("grafana-key", ("eyJrIjoi",), _ALNUM + "{70,400}={0,3}"),
    ("harness-key", ("pat.", "sat."), r"[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}"),
    ("heroku-key", ("HRKU-AA",), _WORD + "{58}"),
    ("infracost-token", ("ico-",), _ALNUM + "{32}"),
    ("intra42-secret", ("s-s4t2ud-", "s-s4t2af-"), "[a-f0-9]{64}"),
    ("jwt", ("ZXlK",), "[A-Za-z0-9+/_-]{36,}={0,2}"),
    ("lob-key", ("test_", "live_", "test_pub_", "live_pub_"), "[a-f0-9]{31,35}"),
    ("mailgun-key", ("key-", "pubkey-"), "[a-f0-9]{32}"),
    ("newrelic-key", ("NRAK-", "NRII-", "NRJS-"), "[A-Za-z0-9-]{19,32}"),
    ("octopus-key", ("API-",), "(?=[A-Z]*[0-9])[A-Z0-9]{26}"),
    ("openshift-token", ("sha256~",), _WORD + "{43}"),
    (
        "planetscale-token",
        ("pscale_tkn_", "pscale_oauth_", "pscale_pw_"),
        _DOTTED + "{32,64}",
    ),
    ("posthog-key", ("phc_", "phx_"), _ALNUM + "{40,}"),
    ("postman-key", ("PMAK-",), "[A-Fa-f0-9]{24}-[A-Fa-f0-9]{34}"),
    ("prefect-key", ("pnu_",), _ALNUM + "{36}"),
    ("pulumi-token", ("pul-",), "[a-f0-9]{40}"),
    (
        "pypi-token",
        ("pypi-AgEIcHlwaS5vcmc", "pypi-AgENdGVzdC5weXBpLm9yZw"),
        _WORD + "{50,}",
    ),
    ("readme-token", ("rdme_",), _LOWER + "{70}"),
    ("rubygems-key", ("rubygems_",), "[a-f0-9]{48}"),
    ("scalingo-token", ("tk-us-",), _WORD + "{48}"),
    ("sendgrid-key", ("SG.",), _DOTTED + "{66}"),
    ("sendinblue-key", ("xkeysib-",), "[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    ("settlemint-token", ("sm_aat_", "sm_pat_", "sm_sat_"), _ALNUM + "{16}"),
    ("shippo-token", ("shippo_live_", "shippo_test_"), "[a-fA-F0-9]{40}"),
    ("sourcegraph-token", ("sgp_",), "(?:[A-Fa-f0-9]{16}_|local_)?[a-fA-F0-9]{40}"),
    ("square-token", ("sq0atp-", "sq0idp-", "sq0csp-"), _WORD + "{22,60}"),
    ("square-token", ("EAAA",), "(?=[A-Za-z_-]{0,60}[0-9])" + _WORD + "{22,60}"),
    (
        "stripe-key",
        ("whsec_", *(f"{k}k_{env}_" for k in "sr" for env in ("test", "live", "prod"))),
        _ALNUM + "{10,99}",
    ),
    ("twilio-key", ("SK",), "[0-9a-fA-F]{32}"),
    ("typeform-token", ("tfp_",), _DOTTED + "{40,}"),
    ("yandex-key", ("AQVN",), _WORD + "{35,38}"),
)

FORMED: tuple[Issued, ...] = (
    ("azure-secret", ("Q~",), r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    (
        "authress-key",
        (".acc",),
        r"(?:sc|ext|scauth|authress)_[A-Za-z0-9]{5,30}\.[A-Za-z0-9]{4,6}\.acc[_-][\w.+/=-]{40,160}",
    ),
    ("facebook-token", ("|", "%"), "[0-9]{15,16}[|%][A-Za-z0-9_-]{27,40}"),
    ("maxmind-key", ("_mmk",), "[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk"),
    (
        "terraform-token",
        (".atlasv1.",),
        r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}",
    ),
    ("vault-token", ("s.",), r"s\.(?=[A-Za-z]*[0-9])[A-Za-z0-9]{24}"),
    (
        "slack-token",
        ("hooks.slack.com",),
        r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{43,56}",
    ),
    (
        "teams-webhook",
        ("webhook.office.com",),
        r"https://[a-z0-9]{1,63}\.webhook\.office\.com/webhookb2/[A-Za-z0-9@/-]{60,250}",
    ),
)
"""As above, of tokens whose mark stands within: kind, what they hold, the whole pattern."""
