"""Annotation tools that call casmap while people label: CVAT and Label Studio."""
