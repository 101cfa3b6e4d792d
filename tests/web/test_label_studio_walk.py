"""The walk with a real Label Studio: project, photos, model, predictions, corrections, export, `casmap correct`.

Only in `make soak`: it installs Label Studio of PyPI in an environment of its own.
"""

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import casmap
from casmap.annotations.brush import decode_brush
from casmap.data.scenes import Scenes
from casmap.data.write import write_photos

sys.path.insert(0, str(Path(__file__).parent))
from label_studio_server import LabelStudioServer, environment_of

LABELS = "".join(f'<Label value="class-{number:02d}"/>' for number in range(3))
CONFIG = f"""<View><Image name="image" value="$image"/>
<RectangleLabels name="box" toName="image">{LABELS}</RectangleLabels>
<PolygonLabels name="outline" toName="image">{LABELS}</PolygonLabels>
<BrushLabels name="brush" toName="image">{LABELS}</BrushLabels></View>"""


@pytest.fixture(scope="module")
def label_studio(tmp_path_factory, long):
    if not long:
        pytest.skip("installs Label Studio: make soak")
    folder = tmp_path_factory.mktemp("label-studio")
    server = LabelStudioServer(environment_of(folder / "programs"), folder / "server")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def photos(label_studio) -> Path:
    """Photos in class folders, below Label Studio's document root."""
    write_photos(Scenes(classes=3, photos=6, size=96), label_studio.files / "made")
    shutil.move(label_studio.files / "made" / "photos", label_studio.files / "photos")
    return label_studio.files / "photos"


def connected(label_studio, address: str, config: str, **more):
    project = label_studio.post("/api/projects/", {"title": "casmap", "label_config": config})
    model = {"url": address, "project": project["id"], "title": "casmap", "is_interactive": False, **more}
    return project["id"], label_studio.post("/api/ml/", model)


def predicted(label_studio, project: int) -> dict[str, dict]:
    """Ask for predictions of all tasks, as the data manager does; the last prediction of each photo's address."""
    label_studio.post(f"/api/dm/actions?id=retrieve_tasks_predictions&project={project}", {
        "selectedItems": {"all": True, "excluded": []}, "project": project,
    })  # fmt: skip
    tasks = label_studio.get(f"/api/tasks?project={project}&fields=all&page_size=100")["tasks"]
    return {task["data"]["image"]: task for task in tasks}


def test_local_files_are_predicted_corrected_and_used(label_studio, photos, start, tmp_path, fresh) -> None:
    server = start(
        "--label-studio", label_studio.address, environment={"LABEL_STUDIO_API_KEY": label_studio.token}
    )  # fmt: skip
    project, model = connected(label_studio, server.address, CONFIG)
    assert model["state"] == "CO"
    assert model["model_version"].startswith(f"casmap {casmap.__version__} casmap ")
    storage = label_studio.post("/api/storages/localfiles", {
        "project": project, "path": str(photos), "use_blob_urls": True, "regex_filter": ".*png",
        "recursive_scan": True,
    })  # fmt: skip
    label_studio.post(f"/api/storages/localfiles/{storage['id']}/sync", {})
    tasks = predicted(label_studio, project)
    assert len(tasks) == 6
    mapper = casmap.load()
    for address, task in tasks.items():
        name = address.partition("?d=photos/")[2]
        found = mapper(photos / name)
        (prediction,) = task["predictions"]
        regions = {region["type"]: region for region in prediction["result"]}
        assert set(regions) == {"rectanglelabels", "polygonlabels", "brushlabels"}
        for kind, region in regions.items():
            assert region["value"][kind] == [Path(name).parent.name]
        box = regions["rectanglelabels"]["value"]
        edges = np.array([box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]])
        np.testing.assert_allclose(edges * 0.96, found.box(), atol=1e-6)
        np.testing.assert_array_equal(decode_brush(regions["brushlabels"]["value"]["rle"], (96, 96)), found.connected())
        # A person moves the box by five pixels, and removes the other regions.
        moved = regions["rectanglelabels"]
        moved["value"]["x"] = max(0, moved["value"]["x"] - 500 / 96)
        body = {"result": [moved], "project": project}
        label_studio.post(f"/api/tasks/{task['id']}/annotations/", body)
    exported = label_studio.export(project)
    assert len(exported) == 6
    (tmp_path / "export.json").write_text(json.dumps(exported))
    done = fresh("correct", photos, "--boxes", tmp_path / "export.json", "--steps", 0)
    assert done.code == 0, done.complained
    assert re.search(r"│ all +│ +6 │", done.said), done.said


def test_uploads_and_a_model_with_a_token(label_studio, photos, start) -> None:
    server = start(
        "--label-studio", label_studio.address,
        environment={"LABEL_STUDIO_API_KEY": label_studio.token, "CASMAP_TOKEN": "a-secret-token"},
    )  # fmt: skip
    config = (
        CONFIG.partition("<RectangleLabels")[0] + f'<BrushLabels name="b" toName="image">{LABELS}</BrushLabels></View>'
    )
    secret = {"auth_method": "BASIC_AUTH", "basic_auth_user": "casmap", "basic_auth_pass": "a-secret-token"}
    with pytest.raises(AssertionError, match="401"):
        connected(label_studio, server.address, config)
    project, _ = connected(label_studio, server.address, config, **secret)
    files = sorted(photos.rglob("*.png"))[:2]
    label_studio.upload(project, files)
    tasks = predicted(label_studio, project)
    assert len(tasks) == 2
    for address, task in tasks.items():
        assert address.startswith("/data/upload/")
        (prediction,) = task["predictions"]
        (region,) = prediction["result"]
        assert decode_brush(region["value"]["rle"], (96, 96)).any()


def test_an_interface_without_regions_is_refused_at_once(label_studio, start) -> None:
    server = start("--label-studio", label_studio.address)
    choices = '<View><Image name="i" value="$image"/><Choices name="c" toName="i"><Choice value="a"/></Choices></View>'
    with pytest.raises(AssertionError, match="labeling configuration"):
        connected(label_studio, server.address, choices)
