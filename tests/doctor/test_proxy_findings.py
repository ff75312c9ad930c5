"""Findings about proxies, tunnels and CDNs that hide the players, from what the daemon has seen."""

from dataclasses import asdict
from json import dumps
from typing import Any

import pytest

from regsvc.http.hops import Hint, HintKind
from tests.support.doctor_case import DoctorCase

ID = "server.clients_hidden"
HINTS = {
    HintKind.TUNNEL: (Hint(HintKind.TUNNEL, "127.0.0.1"), "transport.proxyProtocolVersion"),
    HintKind.OTHER_HEADER: (
        Hint(HintKind.OTHER_HEADER, "127.0.0.1", "X-Real-Ip"),
        "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;",
    ),
    HintKind.UNTRUSTED: (Hint(HintKind.UNTRUSTED, "172.17.0.1", "X-Forwarded-For"), "add the proxy"),
    HintKind.INNER: (Hint(HintKind.INNER, "10.0.0.5"), "Add it"),
    HintKind.CLOUDFLARE: (Hint(HintKind.CLOUDFLARE), "real_ip_header CF-Connecting-IP"),
    HintKind.CDN: (Hint(HintKind.CDN, "", "True-Client-Ip"), "Otherwise ignore this"),
    HintKind.HEADER_OFF: (Hint(HintKind.HEADER_OFF, "127.0.0.1"), "switch it on here"),
    HintKind.HEADER_MISSING: (Hint(HintKind.HEADER_MISSING, "127.0.0.1"), "off here"),
}


def note(doctor_case: DoctorCase, written: Any) -> None:
    """Write what the daemon stores."""
    doctor_case.state_dir.mkdir(exist_ok=True)
    (doctor_case.state_dir / "last-hops.json").write_text(written if isinstance(written, str) else dumps(written))


@pytest.mark.parametrize("kind", HintKind)
def test_what_hides_the_players_is_told_with_the_lines_to_add(doctor_case: DoctorCase, kind: HintKind) -> None:
    hint, advice = HINTS[kind]
    note(doctor_case, [asdict(hint)])
    finding = doctor_case.only_finding(ID)
    assert finding.severity == "risky"
    assert advice in finding.do
    assert hint.address in finding.title
    assert hint.header in finding.title
    assert finding.where.startswith(f"{doctor_case.config_file}: [http] ")
    assert hint.address in finding.where or kind is HintKind.HEADER_MISSING


def test_addresses_of_the_internet_are_never_named(doctor_case: DoctorCase) -> None:
    """Players may come to us directly, and send what they like; not where TLS ends at a proxy."""
    note(doctor_case, [asdict(Hint(HintKind.UNTRUSTED, "", "X-Forwarded-For"))])
    assert "List the addresses of your proxies" in doctor_case.only_finding(ID).do
    doctor_case.change("server", base_url="http://play.example.org")
    assert {finding.id for finding in doctor_case.findings()} == {"server.plain_http"}


@pytest.mark.parametrize("written", ["", "[", "null", "[1]", "{}", '[{"kind": "other"}]', []])
def test_a_note_that_is_empty_or_damaged_says_nothing(doctor_case: DoctorCase, written: Any) -> None:
    note(doctor_case, written)
    assert doctor_case.findings() == []


def test_the_protocol_without_proxies_has_no_effect(doctor_case: DoctorCase) -> None:
    doctor_case.change("http", proxy_protocol=True, trusted_proxies=[])
    assert {finding.id for finding in doctor_case.findings()} == {"config.no_effect", "server.proxy_not_trusted"}
    doctor_case.change("http", trusted_proxies=["127.0.0.1"])
    assert doctor_case.findings() == []
