"""Fuzzing of the HTTP API: schemathesis generates requests from the OpenAPI description."""

import pytest

schemathesis = pytest.importorskip("schemathesis")
from hypothesis import HealthCheck, settings  # noqa: E402
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance  # noqa: E402

from casmap.inference.mapper import SaliencyMapper  # noqa: E402
from casmap.web.app import create_app  # noqa: E402
from casmap.web.label_studio_photos import LabelStudio  # noqa: E402

NOBODY = LabelStudio("http://127.0.0.1:1"), "1"  # at this port is no server
app = create_app({"casmap": SaliencyMapper.load()}, hosts=None, label_studio=NOBODY)
schema = schemathesis.openapi.from_asgi("/api/openapi.json", app)

# Refusals that an OpenAPI description cannot express: two options together, and what a photo shows.
BEYOND_THE_DESCRIPTION = ("alpha and threshold exclude each other", "has no object to cut out")


@schema.parametrize()
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
def test_no_request_causes_a_server_error(case) -> None:
    response = case.call()
    assert response.status_code < 500
    # A batch has a result for every file, also an invalid one; bytes that are not a photo have no annotations.
    # A labelling interface is any text for the description, but not for Label Studio.
    excluded = {
        "/api/batch": [negative_data_rejection], "/api/annotations": [positive_data_acceptance],
        "/predict": [positive_data_acceptance], "/setup": [positive_data_acceptance],
    }  # fmt: skip
    checks = excluded.get(case.path, [])
    if response.status_code == 422 and any(sentence in response.text for sentence in BEYOND_THE_DESCRIPTION):
        checks = [*checks, positive_data_acceptance]
    case.validate_response(response, excluded_checks=checks)
