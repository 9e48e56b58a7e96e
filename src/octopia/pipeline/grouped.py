"""A metric of several systems at once: its SQL, rewritten for tables with the traces of many systems.

A metric is defined for one trace. `grouped` turns its SQL into one query for traces that are told apart by a column
`system`. The answer has the rows of all systems, and `system` as its first column, so the number of queries does not
grow with the number of systems. For every SELECT:

- Every table has a column `system`, and so has every result.
- Joins stay within a system; a CROSS JOIN becomes a join on `system`.
- GROUP BY, PARTITION BY and DISTINCT get `system` as well.
- An aggregate without GROUP BY gives one row even if it reads none. It therefore gives one for every system in `facts`:
  where a system has no rows, COUNT is 0 and every other aggregate is null.

Tables with one row per system are broadcast. Otherwise Spark would send all rows of a system to one task.

Not supported, and refused: a SELECT without FROM, and a SELECT inside an expression.
"""

from typing import Any, Final

import sqlglot
from sqlglot import exp

SYSTEM: Final = "system"
# The table with one row for each system.
_SYSTEMS: Final = "facts"
_READ: Final = "read_of_system"


def grouped(sql: str) -> str:
    """The SQL for all systems at once. Its rows come in any order."""
    tree = sqlglot.parse_one(sql)
    tables = _clause(tree, "with")
    single = {_SYSTEMS}
    for table in tables.expressions if tables is not None else ():
        if _is_single(table.this, single):
            single.add(table.alias)
        table.set("this", _query(table.this, single))
    for key in ("with_", "with"):
        tree.args.pop(key, None)
    made = _query(tree, single)
    text: str = made.sql(dialect="spark", pretty=True)
    return text if tables is None else f"{tables.sql(dialect='spark', pretty=True)}\n{text}"


def _clause(query: Any, name: str) -> Any:
    """A clause whose name is a keyword of Python: newer releases of sqlglot put a line after it."""
    return query.args.get(f"{name}_") or query.args.get(name)


def _query(query: Any, single: set[str]) -> Any:
    if isinstance(query, exp.Union):
        query.set("order", None)
        query.set("this", _query(query.this, single))
        query.set("expression", _query(query.expression, single))
        return query
    return _select(query, single)


def _select(select: Any, single: set[str]) -> Any:
    source = _clause(select, "from")
    if source is None or any(select.find_all(exp.Subquery)):
        raise ValueError(f"cannot be grouped: {select.sql()}")
    select.set("order", None)
    first = source.this.alias_or_name
    own = exp.column(SYSTEM, table=first)
    sources = [source.this]
    for join in select.args.get("joins") or ():
        sources.append(join.this)
        same = exp.EQ(this=exp.column(SYSTEM, table=join.this.alias_or_name), expression=own.copy())
        on = join.args.get("on")
        join.set("kind", None if join.args.get("kind") == "CROSS" else join.args.get("kind"))
        join.set("on", same if on is None else exp.and_(on, same))
    for window in select.find_all(exp.Window):
        window.set("partition_by", [own.copy(), *(window.args.get("partition_by") or ())])
    small = [each.alias_or_name for each in sources if each.name in single]
    if small and len(sources) > 1:
        select = select.hint(*(f"BROADCAST({alias})" for alias in small))
    projections = list(select.expressions)
    group = select.args.get("group")
    is_whole = group is None and _aggregates(select)
    has_all = _has_every_system(select, single)
    select.set("expressions", [own.copy(), *projections])
    if group is not None:
        group.set("expressions", [own.copy(), *group.expressions])
        return select
    if not is_whole:
        return select
    select = select.group_by(own.copy())
    return select if has_all else _with_every_system(select, projections)


def _with_every_system(select: Any, projections: list[Any]) -> Any:
    """The groups that there are, and for systems without rows the values that aggregates of nothing have."""
    columns: list[Any] = [exp.column(SYSTEM, table=_SYSTEMS)]
    for each in projections:
        empty = each.this.copy().transform(_of_nothing) if isinstance(each, exp.Alias) else exp.null()
        found = exp.column(each.alias_or_name, table=_READ)
        value = exp.Case().when(exp.column(SYSTEM, table=_READ).is_(exp.null()), empty).else_(found)
        columns.append(exp.alias_(value, each.alias_or_name))
    same = exp.EQ(this=exp.column(SYSTEM, table=_READ), expression=exp.column(SYSTEM, table=_SYSTEMS))
    return exp.select(*columns).from_(_SYSTEMS).join(select.subquery(_READ), on=same, join_type="left")


def _of_nothing(node: Any) -> Any:
    if isinstance(node, exp.Count):
        return exp.Literal.number(0)
    return exp.null() if isinstance(node, exp.AggFunc) else node


def _is_single(query: Any, single: set[str]) -> bool:
    """Whether a query gives one row for each system: an aggregate of everything, or joins of such."""
    if not isinstance(query, exp.Select) or query.args.get("group") is not None:
        return False
    return _aggregates(query) or (_has_every_system(query, single) and not _left_joins(query))


def _has_every_system(select: Any, single: set[str]) -> bool:
    """Whether there are rows of every system: from tables that have one each, whatever else is joined to them."""
    joins = [join.this.name for join in select.args.get("joins") or () if join not in _left_joins(select)]
    return not select.args.get("where") and {_clause(select, "from").this.name, *joins} <= single


def _left_joins(select: Any) -> list[Any]:
    return [join for join in select.args.get("joins") or () if join.args.get("side") == "LEFT"]


def _aggregates(select: Any) -> bool:
    """Whether its columns are aggregates; those with OVER are not."""
    found = (node for column in select.expressions for node in column.find_all(exp.AggFunc))
    return any(not isinstance(node.parent, exp.Window) for node in found)
