import pytest
from purse import pay


@pytest.mark.kills("enough/removed")
def test_refuses():
    with pytest.raises(ValueError, match="5 asked, 3 there"):
        pay([1, 2], 5)
