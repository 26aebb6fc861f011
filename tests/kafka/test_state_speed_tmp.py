import time, json
import numpy as np
from stream_app.cli import run
from stream_app.wire import Event
from tests.kafka.state_log import Log
from tests.streams import publish
from stream_app.settings import load
from stream_app.design import design_of
def test_speed(kafka, topics, send, monkeypatch, capsys):
    settings = load(bootstrap_servers=kafka.bootstrap, topic_prefix=topics)
    data=np.load("/work/shared/data/ml-1m/ml-1m.npz"); u,i,r=data["user"],data["item"],data["rating"]
    t0=time.time(); records=[]
    for size,tag in ((20,"20 ratings a record"),):
        for user in np.unique(u):
            at=np.flatnonzero(u==user); device=int(user).to_bytes(16,"little")
            for s,first in enumerate(range(0,len(at),size)):
                rows=at[first:first+size]
                records.append(publish(Event(device,s+1,"rr:5:2",20000,i[rows].astype(np.uint64),(r[rows]-1).astype(np.uint8))))
    log=Log(settings, send); per=4*2000
    t0=time.time()
    for first in range(0,len(records),per): log.round(records[first:first+per])
    out=[f"records {len(records)} published {time.time()-t0:.1f} s"]
    where=["--bootstrap",kafka.bootstrap,"--prefix",topics,"--json"]
    for _ in range(3):
        t=time.time(); code=run(["state","rebuild",*where]); said=capsys.readouterr()
        assert code==0, said.err
        told=json.loads(said.out); out.append(f"rebuild {time.time()-t:.2f} s replay {told['replay_seconds']:.2f} write {told['write_seconds']:.2f} {told['counts']}")
    t=time.time(); code=run(["state","verify",*where]); out.append(f"verify {code} {time.time()-t:.2f} s {capsys.readouterr().out[:300]}")
    t=time.time(); code=run(["state","export","/tmp/x_export.npz",*where]); out.append(f"export {code} {time.time()-t:.2f} s")
    with capsys.disabled(): print("\n".join(out))
