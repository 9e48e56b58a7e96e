"""The index of filters: which of them does a notification match, which does an advertisement overlap?"""

from octopia.matching.kernels import kernels_in_use, use_kernels
from octopia.matching.matcher import Matcher
from octopia.matching.warm_up import warm_up

__all__ = ["Matcher", "kernels_in_use", "use_kernels", "warm_up"]
