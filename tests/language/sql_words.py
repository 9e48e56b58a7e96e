"""Words that SQL, in one dialect or another, keeps for itself. In this language nearly all of them name attributes."""

_WORDS = """
    abs all alter analyze and anti any array as asc at attach begin between bigint binary bit boolean both by cache
    call case cast char check cluster collate column comment commit copy create cross cube current_date current_time
    current_timestamp current_user database date datetime dec decimal default delete desc describe distinct div
    double drop else end escape except execute exists explain extract false fetch filter final first float following
    for foreign format from full function glob global grant group grouping having if ilike in index inf inner insert
    int integer intersect interval into is isnull join json key kill lateral leading left like limit load lock map
    match merge mod n nan natural next not notnull null nulls object of offset on only or order outer over overlaps
    partition percent pivot pragma preceding primary procedure qualify range real recursive references regexp
    replace returning right rlike rollback rollup row rows schema select semi set show similar smallint some sort
    struct symmetric table tablesample temp text then time timestamp to top trailing trigger true truncate unbounded
    union unique unknown unnest unpivot update use using uuid values varchar variant vector view when where window
    with x xor year zone
"""
SQL_WORDS = _WORDS.split()
