"""Which releases belong together, as far as the public tables tell."""

from __future__ import annotations

import pytest

from collect_remote.checks.compatibility import PYTHONS, RELEASES, cann_pair, driver_pair, python_pair, torch_pair


@pytest.mark.parametrize(
    ("torch", "torch_npu", "fits", "must"),
    [
        ("2.13.0+cpu", "2.13.0", True, False),
        ("2.7.1", "2.7.1.post8", True, False),
        ("2.7.0", "2.7.1.post8", False, False),
        ("2.6.0", "2.7.1", False, True),
        ("1.13.0", "2.13.0", False, True),
        ("unknown", "2.13.0", None, False),
        ("2.13.0", "unknown", None, False),
        (None, None, None, False),
    ],
)
def test_torch_and_torch_npu(torch: str | None, torch_npu: str | None, fits: bool | None, must: bool) -> None:
    found = torch_pair(torch, torch_npu)
    assert (found.fits, found.must) == (fits, must), found.text


@pytest.mark.parametrize(
    ("python", "torch", "fits"),
    [
        ((3, 11, 7), "2.13.0", True),
        ((3, 9, 1), "2.9.0", False),
        ((3, 12, 0), "2.1.0", False),
        ((3, 11), "2.99.0", None),
    ],
)
def test_python_and_torch(python: tuple[int, ...], torch: str, fits: bool | None) -> None:
    assert python_pair(python, torch).fits is fits


@pytest.mark.parametrize(
    ("torch_npu", "cann", "fits"),
    [
        ("2.1.0.post17", "8.3.RC1", True),
        ("2.1.0.post17", "8.0.RC2", True),
        ("2.1.0.post17", "8.5.0", False),
        ("2.9.0.post2", "9.0.1", True),
        ("2.9.0", "8.5.2", True),
        ("2.13.0", "8.5.0", True),
        ("2.13.0", "8.3.RC1", False),
        ("2.1.0", "7.0.0", True),
        ("2.1.0", "8.0.0", None),
        ("2.2.0", "8.0.RC1", True),
        ("2.2.0", "8.0.RC2", None),
        ("2.15.0", "9.3.0", None),
        ("2.13.0", None, None),
        ("2.13.0+git1234", "9.2.0", True),
        ("2.7.1.dev20250724", "8.3.RC1", None),
        ("2.1.0.rc1", "7.0.RC1", None),
        (None, "9.2.0", None),
    ],
)
def test_torch_npu_and_cann(torch_npu: str | None, cann: str | None, fits: bool | None) -> None:
    found = cann_pair(torch_npu, cann)
    assert found.fits is fits, found.text


@pytest.mark.parametrize(
    ("cann", "driver", "fits"),
    [
        ("9.2.0", "25.2.0", False),
        ("9.2.0", "25.3.rc1", True),
        ("8.5.0", "24.1.rc2", False),
        ("8.5.0", "25.5.1", True),
        ("9.1.0", "27.0.0", None),
        ("8.3.RC1", "25.2.0", None),
        (None, None, None),
    ],
)
def test_cann_and_driver(cann: str | None, driver: str | None, fits: bool | None) -> None:
    found = driver_pair(cann, driver)
    assert found.fits is fits, found.text


def test_every_release_has_its_pythons_and_its_own_cann_fits() -> None:
    for version, (_, cann) in RELEASES.items():
        assert ".".join(version.split(".")[:2]) in PYTHONS, version
        assert cann_pair(version, cann).fits, version
