"""The subscription index: which stored filters does a notification match?"""

from octopia.matching.index import Matcher

__all__ = ["Matcher"]
