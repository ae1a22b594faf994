"""The random models and the tables of the packages below serve these tests, too."""

from tests.unit.hubnmt.decoding.conftest import (  # noqa: F401 (fixtures)
    random_table_fixture,
    search_exhaustively_fixture,
    search_slowly_fixture,
    table_step_fixture,
)
from tests.unit.hubnmt.model.conftest import (  # noqa: F401 (fixtures)
    batch,
    make_config_fixture,
    make_model_fixture,
    randomize_fixture,
)
