"""What can users call?

`graphwire` lists the public names; this package has the modules behind them.

    save:  ExportedProgram → bridge.encode → Program + payloads → tree → WireFormat → archive
    load:  archive → WireFormat → tree → schema steps → Program → validate → opset steps → bridge.decode → ExportedProgram

Only the functions that take or return an `ExportedProgram` import torch.
"""
