"""The dialects that readers and writers of text files share."""

from __future__ import annotations

import pytest

from flinknet.datastream.connectors.text_dialects import BYTE_ORDER_MARK, require_delimiter
from flinknet.errors import ConfigurationError


@pytest.mark.parametrize("delimiter", ["", '"', "\n", "\r", BYTE_ORDER_MARK, "::"])
def test_a_delimiter_that_is_something_else_in_a_row(delimiter: str) -> None:
    with pytest.raises(ConfigurationError, match="choose one character other than a quote"):
        require_delimiter(delimiter)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", " ", "|", "\x01", "é"])
def test_a_delimiter(delimiter: str) -> None:
    require_delimiter(delimiter)
