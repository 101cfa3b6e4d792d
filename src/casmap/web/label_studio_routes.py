"""Label Studio's ML backend protocol: its server asks for predictions while people label."""

import time
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from casmap.errors import UnreadableImage, UserError
from casmap.inference.mapper import Mapped
from casmap.integrations.label_studio import Control, controls_of, regions_of
from casmap.io.reading import shown
from casmap.web.label_studio_photos import PATIENCE, LabelStudio
from casmap.web.limits import WorkQueue

# Seconds for a request, of the 100 that Label Studio waits. Tasks that are left get no prediction, and Label Studio
# sends them again when it is asked again.
BUDGET = 60.0
MOST_TASKS = 100_000
Config = Annotated[str, Field(max_length=2**20, description="the project's labelling interface (XML)")]


class Setup(BaseModel):
    """A project that was connected; its host name and token are not used."""

    label_config: Config = Field("", alias="schema")


class Task(BaseModel):
    """A task, with the addresses of its photos."""

    data: dict[str, Any] = Field(max_length=1000)


class Tasks(BaseModel):
    """Tasks of a project that need predictions."""

    tasks: list[Task] = Field(min_length=1, max_length=MOST_TASKS)
    label_config: Config


class Prediction(BaseModel):
    """The prediction for a task."""

    result: list[dict[str, Any]] = Field(description="regions")
    score: float
    model_version: str


class Predictions(BaseModel):
    """A prediction for each task; an empty list if its photo cannot be used, or if no time was left."""

    results: list[Prediction | list[Any]]
    errors: list[str] = Field(description="an error for each photo that cannot be used")


def label_studio_routes(
    server: LabelStudio, version: str, map_photo: Callable[[bytes], Mapped], queue: WorkQueue
) -> APIRouter:
    """Create the routes. version: of the mapping. map_photo: maps the content of a photo."""
    router = APIRouter(tags=["Label Studio"])

    @router.get("/health")
    async def backend_health() -> dict[str, str]:
        """Check that the server is running."""
        return {"status": "UP", "model_class": "casmap"}

    @router.post("/setup")
    async def setup(project: Setup) -> dict[str, str]:
        """Connect a project; refuse a labelling interface for which there are no predictions."""
        if "<Image" in project.label_config:  # a new project has none yet
            controls_of(project.label_config)
        return {"model_version": version}

    @router.post("/webhook")
    async def webhook() -> dict[str, str]:
        """Ignore an event of a project: Label Studio sends all of them to a connected model."""
        return {"status": "ignored"}

    def predict_task(task: Task, controls: list[Control]) -> Prediction:
        regions = []
        for key in dict.fromkeys(control.key for control in controls):
            address = task.data.get(key)
            if not isinstance(address, str):
                raise UnreadableImage(f"The task has no address of a photo in {shown(key)}.")
            content = server.photo(address, queue.limits.bytes, min(PATIENCE, queue.seconds_left()))
            regions += regions_of([one for one in controls if one.key == key], address, map_photo(content))
        score = max((one["score"] for one in regions), default=0.0)
        return Prediction(result=regions, score=score, model_version=version)

    @router.post("/predict")
    async def predict(asked: Tasks) -> Predictions:
        """Predict boxes, polygons or brush masks, as the project's labelling interface asks for."""
        controls, end = controls_of(asked.label_config), time.monotonic() + BUDGET
        results: list[Prediction | list[Any]] = []
        errors: list[str] = []
        for task in asked.tasks:
            if time.monotonic() > end:
                results.append([])
                continue
            try:
                results.append(await queue.work(predict_task, task, controls))
            except (UserError, HTTPException) as error:
                of_all = isinstance(error, HTTPException) and error.status_code not in (408, 413)
                if of_all or len(asked.tasks) == 1:
                    raise
                results.append([])
                errors.append(str(error.detail) if isinstance(error, HTTPException) else str(error))
        return Predictions(results=results, errors=errors)

    return router
