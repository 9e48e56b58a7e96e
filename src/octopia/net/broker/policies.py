"""The policies of one client's subscriptions, by id, counted.

A client may have tens of thousands of subscriptions, and every new one asks which policies there are.
"""


class Policies(dict[str, str]):
    """Policies by subscription. `distinct` are those in use."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[str, int] = {}

    @property
    def distinct(self) -> set[str]:
        return set(self._counts)

    def put(self, id: str, policy: str) -> None:
        """Set the policy of a subscription, instead of an earlier one."""
        self.drop(id)
        self[id] = policy
        self._counts[policy] = self._counts.get(policy, 0) + 1

    def drop(self, id: str) -> None:
        """Forget a subscription, if it is known."""
        policy = self.pop(id, None)
        if policy is not None:
            self._counts[policy] -= 1
            if not self._counts[policy]:
                del self._counts[policy]
