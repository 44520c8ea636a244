"""CrisisMMD v2.0 (Alam et al. 2018): posts of seven disasters, to be put into classes.

A post is a text with a picture. One folder holds data_image/ and the release's splits:
crisismmd_datasplit_agreed_label/ with the posts on whose text and picture the annotators agree, or else
crisismmd_datasplit_all/. Where both hold a task the agreed one is used: its posts have one label. A post's text and its
picture are the question's own sources; posts of the test split and of the training split are the corpus.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from pydantic import TypeAdapter

from actors.errors import UserError
from actors.messages import Question, Source
from experiments.datasets.benchmark import Benchmark, image_source, text_source
from experiments.datasets.fields import Id, Label, Text
from experiments.datasets.item import Item
from experiments.datasets.kind import OF_FILES, DataRequest
from experiments.datasets.reading import once, placed, read_table

# In order of preference: posts with agreed labels first.
LAYOUTS = (
    "crisismmd_datasplit_agreed_label/task_{task}_text_img_agreed_lab_{split}.tsv",
    "crisismmd_datasplit_all/task_{task}_text_img_{split}.tsv",
)
HELPFUL = "What does this post tell those who respond to the disaster?"
QUESTIONS = {
    "informative": "Does this post help those who respond to the disaster?",
    "humanitarian": HELPFUL,
    "humanitarian_merged": HELPFUL,
    "damage": "How severe is the damage that this post shows?",
}
LABELS = {
    "informative": ("informative", "not_informative"),
    "humanitarian": (
        "affected_individuals",
        "infrastructure_and_utility_damage",
        "injured_or_dead_people",
        "missing_or_found_people",
        "not_humanitarian",
        "other_relevant_information",
        "rescue_volunteering_or_donation_effort",
        "vehicle_damage",
    ),
    "damage": ("severe_damage", "mild_damage", "little_or_no_damage"),
}
CHOICES = {task: {label: label.replace("_", " ") for label in labels} for task, labels in LABELS.items()}
CHOICES["humanitarian"]["rescue_volunteering_or_donation_effort"] = "rescue, volunteering or donation effort"
# Ofli et al. 2020 merge the rare classes; HM-RAG's table has the task as well.
CHOICES["humanitarian_merged"] = CHOICES["humanitarian"] | {
    "injured_or_dead_people": "affected individuals",
    "missing_or_found_people": "affected individuals",
    "vehicle_damage": "infrastructure and utility damage",
}


@dataclass(frozen=True, slots=True)
class CrisisMmdPost:
    """A row of the release, without its further labels."""

    event_name: Label
    tweet_id: Id
    image_id: Id
    tweet_text: Text
    image: Text
    label: Label

    @property
    def text_doc(self) -> str:
        """Document of the text, which the pictures of one post share."""
        return f"{self.tweet_id}:text"


POST = TypeAdapter(CrisisMmdPost)


class CrisisMmd(Benchmark):
    """Trains on the official train split and evaluates on test. A post with several pictures is in one of them only."""

    name = "crisismmd"
    metric = "accuracy"
    reads = (*OF_FILES, "data.task")
    release = "CrisisMMD_v2.0.tar.gz and its datasplits, crisisnlp.qcri.org/crisismmd"
    evaluated = "test"

    def __init__(self, request: DataRequest) -> None:
        super().__init__(request)
        # The merged task maps the humanitarian labels, from the same files.
        task = self.settings.task.removesuffix("_merged")
        # Both splits are of one layout, that of the evaluated one.
        present = [layout for layout in LAYOUTS if self.folder.file(layout.format(task=task, split=self.evaluated))]
        for split in ("train", self.evaluated):
            self.files[split] = tuple(layout.format(task=task, split=split) for layout in present[:1] or LAYOUTS)

    @cached_property
    def posts(self) -> dict[str, list[CrisisMmdPost]]:
        """Posts by split, which the corpus and the questions share. Without the training file, of one split."""
        splits = [self.evaluated]
        if self.has("train") or self.request.held_out:
            splits.append("train")
        return {split: self.read_posts(split) for split in splits}

    def read_posts(self, split: str) -> list[CrisisMmdPost]:
        ids = set[str]()
        posts: list[CrisisMmdPost] = []
        # With quoting on, a post that starts with a quotation mark would swallow the rows after it.
        for where, post in read_table(self.path(split), POST, quoted=False):
            with placed(where):
                if post.label not in CHOICES[self.settings.task]:
                    raise UserError(f"unknown label {post.label!r} of task {self.settings.task}")
                once(post.image_id, ids, "image_id")
            posts.append(post)

        return posts

    def split(self, name: str, count: int | None) -> Iterator[Item]:
        posts = self.posts[name]
        task = self.settings.task
        if name == "train":
            # The pictures of one post may be in different splits.
            evaluated = {post.tweet_id for post in self.posts[self.evaluated]}
            posts = [post for post in posts if post.tweet_id not in evaluated]

        for post in self.chosen(posts, lambda post: post.image_id, count):
            docs = (post.text_doc, post.image_id)
            yield Item(
                # By picture, because a post may have several. Merged classes share a text, which is one choice only.
                question=Question(post.image_id, QUESTIONS[task], tuple(dict.fromkeys(CHOICES[task].values()))),
                gold=(CHOICES[task][post.label],),
                # The annotators saw the post alone, so every method is shown it.
                pool=docs,
                supporting=docs,
                own=docs,
                tags={"task": task, "event": post.event_name},
                cluster=post.tweet_id,
            )

    def sources(self) -> Iterator[Source]:
        """Text and picture of every post, titled with its disaster. Posts of one text share it."""
        for post in chain.from_iterable(self.posts.values()):
            title = post.event_name.replace("_", " ")
            with placed(f"{self.folder}, image_id {post.image_id}"):
                file = self.picture(post.image)
            yield text_source(post.text_doc, title, post.tweet_text)
            yield image_source(post.image_id, title, "", file)
