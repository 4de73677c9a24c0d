"""Asks a MongoDB server everything that Runlore's query language can say, and writes down what it answers.

    python -m venv venv && venv/bin/pip install SecantusDB==0.7.0b3 pymongo
    venv/bin/secantusd-py --port 27100 --storage-path "$(mktemp -d)" &
    venv/bin/python tests/data/query/record.py mongodb://127.0.0.1:27100 "SecantusDB 0.7.0b3"

The answers go to the files beside this one; `tests/query_cases.rs` compares them with those of the library. A query is
kept as text, because the order of its keys matters.
"""

import json
import pathlib
import random
import sys

import pymongo
from pymongo.errors import OperationFailure

BIG = 2**53
SEED = 20240607

# --- Documents. Keys are sorted: to the library they have no order.

MISSING = object()

VALUES = [
    MISSING, None, 0, 1, 2, -1, 1.5, -0.5, 3.0, 2**31 - 1, 2**31, BIG, BIG + 1, float(BIG), 2**63 - 1, -(2**63), 1e300,
    "", "1", "a", "ab", "b", "A", "é", "a\nb", "12", "x.y", "a\n", True, False,
    {}, {"b": 1}, {"b": None}, {"b": 2, "c": 3}, {"b": [1, 2]}, {"b": {"c": 1}}, {"0": 1}, {"c": 1}, {"b": "a"},
    [], [None], [1], [1, 2], [2, 1], [1, 2, 3], [[1, 2]], [[1], [2]], [[]], [[[1]]], ["a", "b"], ["ab"], [True], [1, "a", None],
    [{}], [{"b": 1}], [{"b": 1}, {"b": 2}], [{"b": 1}, {"c": 1}], [{"b": 1, "c": 1}, {"b": 2, "c": 2}], [{"b": 1, "c": 2}],
    [{"b": [1, 2]}, {"b": 3}], [{"b": None}], [{"0": 1}], [[{"b": 1}]], [1, {"b": 1}], [{"b": {"c": [1, {"d": 2}]}}],
    [0.5, 7, 20], [5, [1, 2]], [{"b": []}], {"b": []}, {"b": [{"c": 1}, {"c": 2}]}, {"b": [[1]]},
]

TASKS = [
    {"activity_id": "load", "duration_ns": 30, "started_at": 1.25, "status": "FINISHED", "tags": ["io"], "used": {"path": "a.csv", "rows": 10}},
    {"activity_id": "load", "duration_ns": 50, "started_at": 2.5, "status": "ERROR", "tags": [], "used": {"path": "b.csv"}},
    {"activity_id": "train", "duration_ns": 1000, "generated": {"loss": 0.5}, "started_at": 3.0, "status": "FINISHED", "tags": ["gpu", "ml"], "used": {"lr": 0.1, "shape": [1, 2]}},
    {"activity_id": "train", "duration_ns": 2000, "generated": {"loss": 0.25}, "started_at": 4.0, "status": "FINISHED", "tags": ["gpu"], "used": {"lr": 0.01, "shape": [1, 2]}},
    {"activity_id": "train", "duration_ns": 1500.5, "generated": {"loss": 0.125}, "started_at": 5.0, "status": "FINISHED", "tags": ["gpu", "ml", "gpu"], "used": {"lr": 0.01, "shape": [3]}},
    {"activity_id": "train", "duration_ns": None, "started_at": 6.0, "status": "RUNNING", "tags": None, "used": {"lr": 1}},
    {"activity_id": "report", "duration_ns": "long", "started_at": 7.0, "status": "FINISHED", "tags": "pdf", "used": {}},
    {"activity_id": "report", "duration_ns": 7, "generated": {"pages": [{"n": 1, "words": 100}, {"n": 2}]}, "started_at": 8.0, "status": "FINISHED"},
    {"activity_id": None, "duration_ns": 2**40, "started_at": 9.0, "status": "FINISHED", "tags": [["nested"], "io"]},
    {"duration_ns": -5, "started_at": 10.0, "status": "ERROR", "tags": ["io", None]},
    {"activity_id": {"name": "sub", "part": 1}, "duration_ns": True, "started_at": 11, "status": "FINISHED"},
    {"activity_id": {"name": "sub", "part": 1}, "duration_ns": [4, 6], "started_at": 12, "status": "UNKNOWN"},
]


def documents_of_values():
    return [{"_id": i} if value is MISSING else {"_id": i, "a": value} for i, value in enumerate(VALUES)]


def documents_of_tasks():
    return [{"_id": i, **task} for i, task in enumerate(TASKS)]


def random_value(rng, depth):
    simple = [
        lambda: None, lambda: rng.randint(-3, 3), lambda: rng.choice([0.5, 1.0, 2.5, -1.5]), lambda: rng.choice("abc"),
        lambda: rng.choice([True, False]), lambda: rng.choice(["ab", "", "B", "a.c"]), lambda: rng.choice([BIG, BIG + 1]),
    ]
    if depth == 0 or rng.random() < 0.5:
        return rng.choice(simple)()
    if rng.random() < 0.5:
        return [random_value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    keys = sorted(rng.sample(["a", "b", "c", "0"], rng.randint(0, 3)))
    return {key: random_value(rng, depth - 1) for key in keys}


def random_documents(rng):
    documents = []
    for i in range(80):
        keys = sorted(rng.sample(["a", "b", "c", "d"], rng.randint(0, 4)))
        documents.append({"_id": i, **{key: random_value(rng, 3) for key in keys}})
    return documents


def random_path(rng):
    path = rng.choice(["a", "b", "c", "d"])
    while rng.random() < 0.4 and path.count(".") < 3:
        path += "." + rng.choice(["a", "b", "c", "0", "1"])
    return path


def random_operand(rng):
    return random_value(rng, 2)


def random_predicate(rng, depth):
    kind = rng.choice(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists", "$type", "$size", "$all", "$regex", "$not", "$elemMatch"])
    if kind in ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte"):
        return {kind: random_operand(rng)}
    if kind in ("$in", "$nin", "$all"):
        return {kind: [random_operand(rng) for _ in range(rng.randint(0, 3))]}
    if kind == "$exists":
        return {kind: rng.choice([True, False])}
    if kind == "$type":
        return {kind: rng.choice(["double", "string", "object", "array", "bool", "null", "int", "long", "number", ["int", "string"]])}
    if kind == "$size":
        return {kind: rng.randint(0, 3)}
    if kind == "$regex":
        return {kind: rng.choice(["^a", "b$", ".", "^$", "[ab]c?", "B"]), "$options": rng.choice(["", "i"])}
    if depth == 0:
        return {"$exists": True}
    if kind == "$not":
        return {kind: random_predicate(rng, depth - 1)}
    if rng.random() < 0.5:
        return {kind: random_predicate(rng, depth - 1)}
    return {kind: random_filter(rng, depth - 1)}


def random_filter(rng, depth):
    choice = rng.random()
    if depth > 0 and choice < 0.3:
        return {rng.choice(["$and", "$or", "$nor"]): [random_filter(rng, depth - 1) for _ in range(rng.randint(1, 3))]}
    return {random_path(rng): random_predicate(rng, depth) for _ in range(rng.randint(1, 2))}


# --- Cases: (name, collection, kind, query). A find is {"filter", "sort", "projection", "limit", "skip"}.

CASES = []


def find(name, collection="values", **query):
    CASES.append((name, collection, "find", query))


def aggregate(name, pipeline, collection="tasks"):
    CASES.append((name, collection, "aggregate", pipeline))


def label(value):
    return json.dumps(value, ensure_ascii=False)


def comparisons():
    operands = [
        None, 0, 1, 1.0, 1.5, -1, BIG, BIG + 1, float(BIG), 2**63 - 1, -(2**63), 3, "", "a", "ab", "é", True, False,
        {}, {"b": 1}, {"b": None}, {"b": 2, "c": 3}, {"b": 1.0}, [], [1], [1, 2], [[1, 2]], [None], ["a", "b"], [{"b": 1}],
    ]
    for operator in ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]:
        for operand in operands:
            find(f"a {operator} {label(operand)}", filter={"a": {operator: operand}})
    for operand in [None, 1, "a", True, {"b": 1}, {}, [], [1, 2]]:
        find(f"a is {label(operand)}", filter={"a": operand})


def lists():
    for operator in ["$in", "$nin", "$all"]:
        for operands in [[], [1], [1, 2], [None], [None, 1], ["a", True], [[]], [[1, 2]], [[1, 2], 1], [{"b": 1}], [1.5, "1"], [{}], [BIG + 1]]:
            find(f"a {operator} {label(operands)}", filter={"a": {operator: operands}})
    for path in ["a.b", "a.0", "a.b.c"]:
        for operator in ["$in", "$nin", "$all"]:
            for operands in [[1], [None], [1, 2], [[1, 2]]]:
                find(f"{path} {operator} {label(operands)}", filter={path: {operator: operands}})
    for matches in [
        [{"$elemMatch": {"b": 1}}], [{"$elemMatch": {"b": 1}}, {"$elemMatch": {"b": 2}}], [{"$elemMatch": {"b": 1, "c": 1}}, {"$elemMatch": {"c": 2}}],
        [{"$elemMatch": {"$gt": 0, "$lt": 2}}],
    ]:
        find(f"a $all {label(matches)}", filter={"a": {"$all": matches}})


def paths():
    conditions = [
        1, None, {"$ne": 1}, {"$ne": None}, {"$gt": 0}, {"$lte": 2}, {"$gte": None}, {"$exists": True}, {"$exists": False}, {"$size": 2}, {"$size": 0},
        {"$type": "array"}, {"$type": "number"}, {"$not": {"$gt": 1}}, {"$eq": [1, 2]}, {"$regex": "a"},
    ]
    for path in ["a.b", "a.0", "a.1", "a.b.c", "a.0.b", "a.b.0", "a.0.0", "a.b.c.d", "a.b.1.c", "a.-1", "a.b.c.1.d", "b", "a.a"]:
        for condition in conditions:
            find(f"{path}: {label(condition)}", filter={path: condition})


def existence_size_type():
    for operand in [True, False, 1, 0, None, "", 0.0]:
        find(f"a $exists {label(operand)}", filter={"a": {"$exists": operand}})
    for size in [0, 1, 2, 3, 1.0, 2**40]:
        find(f"a $size {label(size)}", filter={"a": {"$size": size}})
    names = ["double", "string", "object", "array", "bool", "null", "int", "long", "number", "date", "objectId", "decimal", "binData", "regex", "timestamp", "minKey"]
    for name in names + [1, 2, 3, 4, 8, 10, 16, 18, 9, -1, 127, ["string", "bool"], [1, "array"], ["number"], 2.0]:
        find(f"a $type {label(name)}", filter={"a": {"$type": name}})
        find(f"a $not $type {label(name)}", filter={"a": {"$not": {"$type": name}}})


def regular_expressions():
    for pattern, options in [
        ("a", ""), ("^a", ""), ("a$", ""), ("^a$", ""), ("A", "i"), ("^A", "i"), ("É", "i"), ("^b", ""), ("^b", "m"), ("a.b", ""), ("a.b", "s"), ("a$", "m"),
        ("a b", ""), ("a b", "x"), (r"\d", ""), (r"^\d+$", ""), (r"\w", ""), (r"\.", ""), ("", ""), ("^$", ""), ("[[:alpha:]]", ""), ("[ab]{2}", ""),
        ("(a|b)$", ""), ("^(?:a|12)$", ""), ("[^a]", ""), (r"\bab\b", ""), ("é", ""), (r"^\W$", ""), (r"\s", ""), ("x # no", "x"), ("a", "im"), (r"\x61", ""),
    ]:
        condition = {"$regex": pattern, "$options": options} if options else {"$regex": pattern}
        find(f"a $regex {label(pattern)} {options}", filter={"a": condition})
    find("a.b $regex", filter={"a.b": {"$regex": "^a"}})
    find("a $regex $gt", filter={"a": {"$regex": "a", "$gt": "a"}})
    find("a $options first", filter={"a": {"$options": "i", "$regex": "A"}})


def element_matches():
    for inner in [
        {"b": 1}, {"b": 2}, {"b": 1, "c": 1}, {"b": 1, "c": 2}, {"b": 2, "c": 1}, {"b": None}, {"b": {"$gt": 1}}, {"b": {"$exists": True}},
        {"b": {"$exists": False}}, {}, {"0": 1}, {"0": {"$exists": True}}, {"b": {"$elemMatch": {"$gt": 1}}}, {"b.c": 1}, {"b.c.d": 2}, {"$or": [{"b": 2}, {"c": 1}]}, {"$and": [{"b": 1}, {"c": 2}]}, {"$nor": [{"b": 1}]},
        {"$gt": 1}, {"$gt": 0, "$lt": 2}, {"$eq": 1}, {"$eq": None}, {"$ne": 1}, {"$in": [1, "a"]}, {"$nin": [1, 2]}, {"$exists": True}, {"$exists": False}, {"$type": "string"},
        {"$type": "array"}, {"$size": 2}, {"$regex": "^a"}, {"$not": {"$gt": 1}}, {"$elemMatch": {"$eq": 1}}, {"$elemMatch": {"b": 1}}, {"$all": [1]}, {"$eq": [1, 2]}, {"$gt": [1]}, {"$eq": {"b": 1}}, {"$ne": None}, {"$not": {"$size": 2}},
        {"$lt": {"b": 2}}, {"$gte": 1.5, "$lte": 10},
    ]:
        find(f"a $elemMatch {label(inner)}", filter={"a": {"$elemMatch": inner}})
    for path in ["a.b", "a.0", "a.b.c"]:
        for inner in [{"$gt": 1}, {"c": 1}, {"$exists": True}]:
            find(f"{path} $elemMatch {label(inner)}", filter={path: {"$elemMatch": inner}})


def logic():
    parts = {"one": {"a": 1}, "null": {"a": None}, "text": {"a": {"$type": "string"}}, "b": {"a.b": {"$gt": 0}}, "every": {}}
    for operator in ["$and", "$or", "$nor"]:
        for names in [["one"], ["null"], ["every"], ["one", "text"], ["one", "b"], ["null", "b", "text"], ["b", "every"], ["one", "one"]]:
            find(f"{operator} {' '.join(names)}", filter={operator: [parts[name] for name in names]})
    find("$or in $and", filter={"$and": [{"$or": [{"a": 1}, {"a": "a"}]}, {"$or": [{"a": {"$size": 2}}, {"a": {"$type": "string"}}]}]})
    find("$nor in $nor", filter={"$nor": [{"$nor": [{"a": 1}]}]})
    find("$or beside a field", filter={"a": {"$exists": True}, "$or": [{"a.b": 1}, {"a.b": 2}]})
    find("everything", filter={})
    for inner in [
        {"$eq": 1}, {"$ne": 1}, {"$gt": 1}, {"$gte": 1, "$lt": 3}, {"$in": [1, None]}, {"$nin": [1]}, {"$exists": True}, {"$exists": False}, {"$regex": "a"}, {"$size": 1},
        {"$all": [1, 2]}, {"$all": []}, {"$elemMatch": {"$gt": 1}}, {"$elemMatch": {"b": 1}}, {"$not": {"$gt": 1}}, {"$gt": None}, {"$lt": "b"}, {"$eq": None}, {"$regex": "A", "$options": "i"},
    ]:
        find(f"a $not {label(inner)}", filter={"a": {"$not": inner}})
        find(f"a.b $not {label(inner)}", filter={"a.b": {"$not": inner}})
    for both in [{"$gt": 1, "$lt": 2}, {"$gte": 1, "$lte": 1}, {"$gt": 0, "$ne": 2}, {"$gt": 1, "$exists": True}, {"$gt": 5, "$lt": 1}, {"$type": "array", "$size": 2}, {"$ne": 1, "$exists": True}]:
        find(f"a {label(both)}", filter={"a": both})


def sorts():
    for path in ["a", "a.b", "a.0", "a.b.c", "a.0.b", "b"]:
        # A server refuses to sort by an index where an object in the array has a key of that name.
        plain = {"a": {"$ne": {"0": 1}}}
        for direction in [1, -1]:
            find(f"sort {path} {direction}", filter=plain, sort={path: direction, "_id": 1})
            find(f"sort {path} {direction}, backwards", filter=plain, sort={path: direction, "_id": -1}, skip=3, limit=20)
    find("skip", sort={"_id": 1}, skip=30)
    find("skip beyond", sort={"_id": 1}, skip=3000)
    find("limit", sort={"_id": -1}, limit=3)
    find("limit 0", sort={"_id": -1}, limit=0)
    find("skip and limit", sort={"_id": 1}, skip=5, limit=2)
    for sort in [{"status": 1, "started_at": -1}, {"activity_id": 1, "started_at": 1}, {"activity_id": -1, "_id": 1}, {"used.lr": 1, "_id": 1}, {"used.lr": -1, "_id": -1}, {"duration_ns": 1, "_id": 1}, {"duration_ns": -1, "_id": 1}, {"tags": 1, "_id": 1}, {"tags": -1, "_id": 1}, {"used.shape": -1, "_id": 1}, {"generated.pages.n": 1, "_id": 1}, {"tags.0": 1, "_id": 1}]:
        find(f"tasks by {label(sort)}", "tasks", sort=sort)
        find(f"first tasks by {label(sort)}", "tasks", sort=sort, limit=3, filter={"status": {"$ne": "RUNNING"}})


def projections():
    for projection in [
        {"a": 1}, {"a": 0}, {"a": True}, {"a": False}, {"_id": 0}, {"_id": 1}, {"a": 1, "_id": 0}, {"a": 0, "_id": 0}, {"a.b": 1}, {"a.b": 0}, {"a.b.c": 1}, {"a.b.c": 0},
        {"a.b": 1, "a.c": 1}, {"a.b": 0, "a.c": 0}, {"b": 1}, {"b": 0}, {"a.0": 1}, {"a.0": 0}, {"a": {"b": 1}}, {"a": {"b": 0}}, {}, {"a": 1.0}, {"a": 2}, {"a": {"b": {"c": 1}}}, {"_id": 0, "a.b": 1},
    ]:
        find(f"projection {label(projection)}", projection=projection, sort={"_id": 1})
    for projection in [{"used.lr": 1, "status": 1}, {"used": 0, "generated": 0, "tags": 0}, {"generated.pages.n": 1, "_id": 0}, {"generated.pages.words": 0}, {"activity_id.name": 1}]:
        find(f"tasks with {label(projection)}", "tasks", projection=projection, sort={"_id": 1})


def pipelines():
    by_id = {"$sort": {"_id": 1}}
    inputs = ["$duration_ns", "$used.lr", "$generated.loss", "$tags", "$used.shape", "$missing", "$generated.pages.n", 1, 2.5, None, {"$literal": "$x"}, "$activity_id.name", "text"]
    for accumulator in ["$sum", "$avg", "$min", "$max", "$first", "$last", "$push", "$addToSet"]:
        for expression in inputs:
            stages = [by_id, {"$group": {"_id": "$status", "x": {accumulator: expression}}}, by_id]
            aggregate(f"{accumulator} {label(expression)} by status", stages)
        for expression in ["$duration_ns", "$missing", {"a": "$used.lr", "b": 1}]:
            aggregate(f"{accumulator} {label(expression)} of all", [by_id, {"$group": {"_id": None, "x": {accumulator: expression}}}])
        aggregate(f"{accumulator} of values", [by_id, {"$group": {"_id": None, "x": {accumulator: "$a"}}}], "values")
    for key in ["$activity_id", "$used.lr", "$tags", "$missing", "$used.shape", {"activity": "$activity_id", "status": "$status"}, {"x": "$used.lr"}, None, 1, "constant", ["$status", "$used.lr"], {"$literal": "$status"}, "$duration_ns", "$generated.pages.n", "$used"]:
        aggregate(f"groups by {label(key)}", [by_id, {"$group": {"_id": key, "n": {"$sum": 1}, "count": {"$count": {}}}}])
    aggregate("groups of values", [by_id, {"$group": {"_id": "$a", "ids": {"$push": "$_id"}}}], "values")
    for p in [[0.5], [0.0, 1.0], [0.5, 0.9, 0.95, 0.99], [0.25, 0.75], [0.001], [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8]]:
        for expression in ["$duration_ns", "$generated.loss", "$missing", "$started_at"]:
            percentile = {"$percentile": {"input": expression, "p": p, "method": "approximate"}}
            aggregate(f"$percentile {label(p)} of {expression}", [{"$group": {"_id": None, "x": percentile}}])
        percentile = {"$percentile": {"input": "$duration_ns", "p": p, "method": "approximate"}}
        aggregate(f"$percentile {label(p)} by activity", [{"$match": {"activity_id": {"$type": "string"}}}, {"$group": {"_id": "$activity_id", "x": percentile}}, by_id])
    for path in ["$tags", "$used.shape", "$generated.pages", "$generated.pages.n", "$missing", "$duration_ns", "$status"]:
        for options in [{}, {"preserveNullAndEmptyArrays": True}, {"includeArrayIndex": "i"}, {"includeArrayIndex": "used.i", "preserveNullAndEmptyArrays": True}]:
            aggregate(f"$unwind {path} {label(options)}", [by_id, {"$unwind": {"path": path, **options}}])
        aggregate(f"$unwind {path}", [by_id, {"$unwind": path}])
    aggregate("$unwind values", [by_id, {"$unwind": {"path": "$a", "includeArrayIndex": "i", "preserveNullAndEmptyArrays": True}}], "values")
    aggregate("$unwind twice", [by_id, {"$unwind": "$a"}, {"$unwind": "$a"}], "values")
    for projection in [
        {"status": 1}, {"status": 0}, {"_id": 0, "status": 1}, {"x": "$used.lr"}, {"x": "$missing"}, {"x": {"$literal": 1}}, {"x": "text"}, {"status": 1, "x": "$used"}, {"x": {"lr": "$used.lr", "at": "$started_at"}}, {"used.x": "$status"}, {"tags.x": "$status"},
        {"used": {"lr": 1}}, {"used.lr": 1, "used.x": "$status"}, {"x": ["$status", "$missing", 1]}, {"x": "$generated.pages.n"}, {"_id": "$status", "started_at": 1}, {"_id": 0}, {"_id": 0, "x": "$_id"}, {"generated.pages.n": 0}, {"generated.pages.x": "$status"}, {"x": "$$ROOT.status"}, {"x": "$$ROOT"}, {"x": None}, {"used.lr": 0, "_id": 0}, {"x": {"y": {"z": "$status"}}}, {"x.y.z": "$status"},
    ]:
        aggregate(f"$project {label(projection)}", [by_id, {"$project": projection}])
    for expression in ["$a.b", "$a.0", "$a.b.c", "$a"]:
        aggregate(f"$project {expression} of values", [by_id, {"$project": {"x": expression}}], "values")
    for projection in [{"a.b": 1}, {"a.b": 0}, {"a.b": "$_id"}, {"a.b.c": "$_id"}, {"a": {"b": "$_id", "c": 1}}]:
        aggregate(f"$project {label(projection)} of values", [by_id, {"$project": projection}], "values")
    aggregate("$count", [{"$match": {"status": "FINISHED"}}, {"$count": "n"}])
    aggregate("$count of nothing", [{"$match": {"status": "NONE"}}, {"$count": "n"}])
    aggregate("$group of nothing", [{"$match": {"status": "NONE"}}, {"$group": {"_id": None, "n": {"$sum": 1}}}])
    aggregate("no stage", [])
    aggregate("$skip and $limit", [by_id, {"$skip": 2}, {"$limit": 3}])
    aggregate("$limit and $skip", [by_id, {"$limit": 3}, {"$skip": 2}])
    aggregate("$sort then $limit", [{"$sort": {"duration_ns": -1, "_id": 1}}, {"$limit": 4}])
    aggregate("$sort, $skip, $limit", [{"$sort": {"duration_ns": 1, "_id": 1}}, {"$skip": 2}, {"$limit": 4}])
    aggregate("$sort, $project, $limit", [{"$sort": {"started_at": -1}}, {"$project": {"status": 1}}, {"$limit": 2}])
    aggregate("$group, $sort, $limit", [{"$group": {"_id": "$activity_id", "n": {"$sum": 1}}}, {"$sort": {"n": -1, "_id": 1}}, {"$limit": 2}])
    aggregate("$group twice", [{"$group": {"_id": "$activity_id", "n": {"$sum": 1}}}, {"$group": {"_id": "$n", "m": {"$sum": 1}}}, by_id])
    aggregate("$match after $group", [{"$group": {"_id": "$status", "n": {"$sum": 1}}}, {"$match": {"n": {"$gt": 1}}}, by_id])
    aggregate("$unwind, $group", [{"$unwind": "$tags"}, {"$group": {"_id": "$tags", "n": {"$sum": 1}}}, by_id])
    aggregate("a task's mean, per activity", [{"$match": {"status": "FINISHED"}}, {"$group": {"_id": "$activity_id", "mean": {"$avg": "$duration_ns"}, "last": {"$max": "$started_at"}, "n": {"$sum": 1}}}, {"$project": {"_id": 0, "activity": "$_id", "mean": 1, "n": 1}}, {"$sort": {"activity": 1}}])


def refused():
    for name, query in {
        "unknown operator": {"a": {"$gtt": 1}}, "unknown at the top": {"$xor": [{"a": 1}]}, "operator at the top": {"$gt": 1}, "empty $and": {"$and": []}, "empty $or": {"$or": []},
        "empty $nor": {"$nor": []}, "$and of no array": {"$and": {"a": 1}}, "$or of values": {"$or": [1]}, "$in of a value": {"a": {"$in": 1}}, "$nin of an object": {"a": {"$nin": {"b": 1}}}, "$all of a value": {"a": {"$all": 1}},
        "$size of text": {"a": {"$size": "1"}}, "$size negative": {"a": {"$size": -1}}, "$size of a part": {"a": {"$size": 1.5}}, "$type unknown": {"a": {"$type": "text"}}, "$type number unknown": {"a": {"$type": 99}}, "$type of null": {"a": {"$type": None}}, "$type of none": {"a": {"$type": []}},
        "$regex of a number": {"a": {"$regex": 1}}, "$regex broken": {"a": {"$regex": "("}}, "$options unknown": {"a": {"$regex": "a", "$options": "q"}}, "$options alone": {"a": {"$options": "i"}}, "$not of a value": {"a": {"$not": 1}}, "$not of nothing": {"a": {"$not": {}}}, "$not without operator": {"a": {"$not": {"b": 1}}},
        "$elemMatch of a value": {"a": {"$elemMatch": 1}}, "$elemMatch of an array": {"a": {"$elemMatch": [1]}}, "field beside operators": {"a": {"$gt": 1, "b": 2}}, "$and inside a field": {"a": {"$and": [{"$gt": 1}]}}, "$in of operators": {"a": {"$in": [{"$gt": 1}]}}, "$all mixed": {"a": {"$all": [{"$elemMatch": {"b": 1}}, 2]}},
    }.items():
        find(f"refused: {name}", filter=query)
    for projection in [{"a": 1, "b": 0}, {"a": 0, "b": 1}, {"a": 1, "a.b": 1}, {"a.b": 1, "a": 1}, {"a": {}}, {"a..b": 1}, {"$a": 1}, {"a": {"b": 1, "c": 0}}]:
        find(f"refused: projection {label(projection)}", projection=projection)
    for sort in [{"a": 0}, {"a": 2}, {"a": "up"}, {"$a": 1}, {"a.": 1}]:
        find(f"refused: sort {label(sort)}", sort=sort)
    for name, stages in {
        "unknown stage": [{"$filter": {}}], "two stages in one": [{"$match": {}, "$limit": 1}], "an empty stage": [{}], "$group without _id": [{"$group": {"n": {"$sum": 1}}}], "$group with a plain field": [{"$group": {"_id": None, "n": 1}}], "unknown accumulator": [{"$group": {"_id": None, "n": {"$total": 1}}}],
        "two accumulators": [{"$group": {"_id": None, "n": {"$sum": 1, "$avg": 1}}}], "a dotted accumulator": [{"$group": {"_id": None, "a.b": {"$sum": 1}}}], "an accumulator with a dollar": [{"$group": {"_id": None, "$n": {"$sum": 1}}}], "$limit 0": [{"$limit": 0}], "$limit negative": [{"$limit": -1}], "$limit of text": [{"$limit": "1"}], "$skip negative": [{"$skip": -1}],
        "$sort empty": [{"$sort": {}}], "$sort 0": [{"$sort": {"a": 0}}], "$project empty": [{"$project": {}}], "$project mixed": [{"$project": {"a": 1, "b": 0}}], "$count empty": [{"$count": ""}], "$count with a dollar": [{"$count": "$n"}], "$count with a dot": [{"$count": "a.b"}], "$count of a number": [{"$count": 1}],
        "$unwind without dollar": [{"$unwind": "tags"}], "$unwind of a number": [{"$unwind": 1}], "$unwind without path": [{"$unwind": {"includeArrayIndex": "i"}}], "$unwind unknown option": [{"$unwind": {"path": "$tags", "x": 1}}], "$unwind index with a dollar": [{"$unwind": {"path": "$tags", "includeArrayIndex": "$i"}}],
        "$percentile without method": [{"$group": {"_id": None, "x": {"$percentile": {"input": "$a", "p": [0.5]}}}}], "$percentile of more than all": [{"$group": {"_id": None, "x": {"$percentile": {"input": "$a", "p": [1.5], "method": "approximate"}}}}], "$percentile without p": [{"$group": {"_id": None, "x": {"$percentile": {"input": "$a", "method": "approximate"}}}}],
        "$percentile of one number": [{"$group": {"_id": None, "x": {"$percentile": {"input": "$a", "p": 0.5, "method": "approximate"}}}}], "$percentile of none": [{"$group": {"_id": None, "x": {"$percentile": {"input": "$a", "p": [], "method": "approximate"}}}}], "unknown expression": [{"$project": {"x": {"$nonsense": 1}}}], "unknown variable": [{"$project": {"x": "$$nobody"}}], "a bare dollar": [{"$project": {"x": "$"}}], "$match unknown": [{"$match": {"a": {"$gtt": 1}}}],
        "$count with an operand": [{"$group": {"_id": None, "n": {"$count": 1}}}], "$sum of two": [{"$group": {"_id": None, "n": {"$sum": ["$a", "$b"]}}}],
    }.items():
        aggregate(f"refused: {name}", stages)


def randomly(rng):
    for i in range(260):
        find(f"random filter {i}", "random", filter=random_filter(rng, 2))
    for i in range(40):
        path = random_path(rng)
        find(f"random sort {i}", "random", filter=random_filter(rng, 1), sort={path: rng.choice([1, -1]), "_id": 1}, skip=rng.randint(0, 5), limit=rng.randint(1, 20))
    for i in range(40):
        kind = rng.choice([0, 1])
        chosen = {}
        for path in {random_path(rng) for _ in range(2)}:
            if not any(path == other or path.startswith(other + ".") or other.startswith(path + ".") for other in chosen):
                chosen[path] = kind
        find(f"random projection {i}", "random", projection=chosen, sort={"_id": 1}, limit=40)


def answer(collection, kind, query):
    try:
        if kind == "aggregate":
            return {"documents": list(collection.aggregate(query))}
        options = {key: query[key] for key in ("projection", "limit", "skip") if key in query}
        if "sort" in query:
            options["sort"] = list(query["sort"].items())
        found = list(collection.find(query.get("filter", {}), **options))
        if "projection" in query:
            return {"documents": found}
        ids = [document["_id"] for document in found]
        return {"ids": ids if "sort" in query else sorted(ids)}
    except (OperationFailure, TypeError, ValueError) as error:
        return {"refused": str(getattr(error, "details", None) and error.details.get("errmsg") or error)}


def main():
    uri, server = sys.argv[1:]
    client = pymongo.MongoClient(uri)
    version = client.server_info()["version"]
    database = client["runlore_cases"]
    client.drop_database(database.name)
    rng = random.Random(SEED)
    collections = {"values": documents_of_values(), "tasks": documents_of_tasks(), "random": random_documents(rng)}
    for name, documents in collections.items():
        database[name].insert_many([dict(document) for document in documents])
    for make in [comparisons, lists, paths, existence_size_type, regular_expressions, element_matches, logic, sorts, projections, pipelines, refused]:
        make()
    randomly(rng)

    folder = pathlib.Path(__file__).parent
    said = {"answered_by": server, "speaks": f"MongoDB {version}", "driver": f"pymongo {pymongo.version}"}
    with open(folder / "documents.jsonl", "w") as out:
        print(json.dumps(said), file=out)
        for name, documents in collections.items():
            for document in documents:
                print(json.dumps({"collection": name, "document": document}, ensure_ascii=False), file=out)
    names = set()
    with open(folder / "cases.jsonl", "w") as out:
        print(json.dumps(said), file=out)
        for name, collection, kind, query in CASES:
            if name in names:
                raise SystemExit(f"two cases are named {name}")
            names.add(name)
            case = {"name": name, "collection": collection, kind: json.dumps(query, ensure_ascii=False)}
            print(json.dumps(case | answer(database[collection], kind, query), ensure_ascii=False), file=out)
    print(f"{len(CASES)} cases")


if __name__ == "__main__":
    main()
