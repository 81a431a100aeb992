from tabsynth.privacy.ledger.project import ProjectLedger as ProjectLedger
