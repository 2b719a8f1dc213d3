import json,sys
from doctor.errors.match import with_message,message_of
from doctor.errors.fitted import *
import doctor.errors.fitted as F
for l in open("/work/texts-real/labels.jsonl"):
    d=json.loads(l)
    if d["batch"]!=sys.argv[1]: continue
    rows=with_message(message_of(d["text"]),symptoms=True)
    fix=""
    if rows:
        r=rows[0]
        w=next((w for w in r.wordings if __import__("re").search(w.message,d["text"],2)),None)
        from doctor.errors.said import sentence
        fix=sentence(r.id,d["text"])+" | "+(w.fix if w else r.fix)
    print(d["text"][-110:].replace("\n","⏎"),"\n  L",d["cause"],"=>",d["remedy"],"\n  D",[r.id for r in rows],"\n   ",fix[:260])
