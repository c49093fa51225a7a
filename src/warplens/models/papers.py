"""The papers behind the models."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """`prefix` is the letter of its equations: Eq. (G-7) is number 7 of GPUMech."""

    key: str
    prefix: str
    authors: str
    title: str
    venue: str

    def __str__(self) -> str:
        return f"{self.authors}, “{self.title}”, {self.venue}"


HONG_KIM = Paper(
    "mwp-cwp-isca2009",
    "H",
    "Hong & Kim",
    "An analytical model for a GPU architecture with memory-level and thread-level parallelism awareness",
    "ISCA 2009",
)
GPUPERF = Paper(
    "gpuperf-ppopp2012",
    "S",
    "Sim, Dasgupta, Kim & Vuduc",
    "A performance analysis framework for identifying potential benefits in GPGPU applications",
    "PPoPP 2012",
)
GPUMECH = Paper(
    "gpumech-micro2014",
    "G",
    "Huang, Lee, Kim & Lee",
    "GPUMech: GPU performance modeling technique based on interval analysis",
    "MICRO 2014",
)
MDM_CAL = Paper(
    "mdm-cal2019",
    "C",
    "Wang, Jahre, Adileh, Wang & Eeckhout",
    "Modeling emerging memory-divergent GPU applications",
    "CAL 2019",
)
MDM = Paper(
    "mdm-micro2020",
    "M",
    "Wang, Jahre, Adileh & Eeckhout",
    "MDM: the GPU memory divergence model",
    "MICRO 2020",
)
LEMEIRE = Paper(
    "pipeline-model-lemeire",
    "L",
    "Lemeire, Cornelis & Konstantinidis",
    "Analysis of the analytical performance models for GPUs and extracting the underlying Pipeline model",
    "JPDC (preprint)",
)
NATH_TULLSEN = Paper(
    "crisp-micro2015",
    "N",
    "Nath & Tullsen",
    "The CRISP performance model for dynamic voltage and frequency scaling in a GPGPU",
    "MICRO 2015",
)
GCOM = Paper(
    "gcom-isca2022",
    "Q",
    "Lee, Ha, Lee, Woo, Lee, Jang & Kim",
    "GCoM: a detailed GPU core model for accurate analytical modeling of modern GPUs",
    "ISCA 2022",
)
ZHANG_OWENS = Paper(
    "zhang-owens-hpca2011",
    "Z",
    "Zhang & Owens",
    "A quantitative performance analysis model for GPU architectures",
    "HPCA 2011",
)
DING_WILLIAMS = Paper(
    "instruction-roofline-pmbs2019", "I", "Ding & Williams", "An instruction roofline model for GPUs", "PMBS 2019"
)
WARPLENS = Paper(
    "warplens", "W", "warplens", "The warps of one SM as a closed network", "this package's documentation"
)
